"""The consumer groups of a broker: kept in ``config/subscriptionGroup.json``, and created on first use.

Source: RocketMQ 5.5.0 SubscriptionGroupManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rmqcore.broker.attributes import GROUP_ATTRIBUTES, changed_attributes
from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.state.system_tables import system_groups
from rmqcore.remoting.bodies.json_object import JsonObject
from rmqcore.remoting.bodies.subscription_groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    subscription_group_table,
)
from rmqcore.remoting.bodies.topic_configs import READ
from rmqcore.remoting.names import SYSTEM_GROUP_PREFIX, wrong_group
from rmqcore.vocabulary.data_version import DataVersion
from rmqcore.vocabulary.java_json import shown_value

FILE = "subscriptionGroup.json"
_LOG = logging.getLogger("rmqcore.broker")


class SubscriptionGroups:
    """The groups that a broker knows. Its methods are called by the loop's thread only.

    Parameters
    ----------
    settings : BrokerSettings
    config_files : ConfigFiles
    now_ms : callable

    Attributes
    ----------
    settings : BrokerSettings
        Those of the broker, as they are now.

    Raises
    ------
    StoreFormatError
        ``subscriptionGroup.json`` cannot be read, nor its ``.bak``.
    """

    def __init__(
        self, settings: BrokerSettings, config_files: ConfigFiles, now_ms: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._files = config_files
        self._now_ms = now_ms
        self._groups = {group.group_name: group for group in system_groups()}
        self._forbidden: dict[str, Mapping[str, int]] = {}
        self._version = DataVersion()
        saved = config_files.load_as(FILE, _parse)
        if saved is not None:
            self._take(saved)

    def _take(self, saved: SubscriptionGroupTable) -> None:
        for group in saved.groups.values():
            wrong = wrong_group(group.group_name)
            if wrong is None:
                self._groups[group.group_name] = group
            else:
                self._files.left_out(FILE, wrong)
        self._forbidden.update(saved.forbidden)
        self._version = saved.data_version

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return a group; None if it is unknown. No group is created."""
        return self._groups.get(group)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return a group, created if missing; None if the broker creates no groups, or if the name is invalid.

        Source: RocketMQ 5.5.0 SubscriptionGroupManager#findSubscriptionGroupConfig.
        """
        known = self._groups.get(group)
        if known is not None:
            return known
        if not (
            self.settings.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        ):
            return None
        most = self.settings.max_subscription_groups
        if wrong_group(group) is not None or len(self._groups) >= most:
            return None
        made = self._groups[group] = SubscriptionGroupConfig(group)
        _LOG.info("new group %s", group)
        self._save(None)
        return made

    def is_read_forbidden(self, group: str, topic: str) -> bool:
        """Return True if an operator has forbidden the group to read a topic.

        Source: RocketMQ 5.5.0 SubscriptionGroupManager#getForbidden.
        """
        bits = self._forbidden.get(group, {}).get(topic, 0)
        return bits > 0 and bool(bits & READ)

    def forbid_read(self, group: str, topic: str, *, forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it again.

        Source: RocketMQ 5.5.0 SubscriptionGroupManager#updateForbidden.

        Notes
        -----
        If Java allows one topic, it allows all topics of the group until the next change of another group is saved.
        """
        topics = dict(self._forbidden.get(group, {}))
        bits = max(0, topics.pop(topic, 0))
        bits = bits | READ if forbidden else bits & ~READ
        if bits:
            topics[topic] = bits
        self._forbidden[group] = topics
        if not topics:
            del self._forbidden[group]
        _LOG.info("group %s: reading topic %s is forbidden: %s", group, topic, forbidden)
        self._save(None)

    def table(self) -> SubscriptionGroupTable:
        """Return all groups as they are now, with the version of the table."""
        return SubscriptionGroupTable(dict(self._groups), dict(self._forbidden), self._version)

    def adopt(self, table: SubscriptionGroupTable) -> None:
        """Replace the groups and the version of the table by a master's; groups that the master lacks are deleted.

        Source: RocketMQ 5.5.0 SlaveSynchronize#syncSubscriptionGroupConfig.
        """
        if table == self.table():
            return
        own = {group.group_name: group for group in system_groups()}
        wanted = {name: group for name, group in table.groups.items() if wrong_group(name) is None}
        self._groups = {**own, **wanted}
        self._forbidden = dict(table.forbidden)
        self._version = table.data_version
        self._files.save(FILE, self._saved)

    def update(
        self, group: SubscriptionGroupConfig, then: Callable[[], object] | None = None
    ) -> None:
        """Create or change a group; `then` is called when it is on disk.

        Raises
        ------
        ValueError
            The name or an attribute is invalid, or the broker already has ``maxSubscriptionGroups`` groups.
        """
        self.update_all([group], then)

    def update_all(
        self, groups: list[SubscriptionGroupConfig], then: Callable[[], object] | None = None
    ) -> None:
        """Create or change several groups as `update` does, all or none."""
        changed = [self._with_attributes(group) for group in groups]
        new = {group.group_name for group in changed} - self._groups.keys()
        most = self.settings.max_subscription_groups
        if new and len(self._groups) + len(new) > most:
            raise ValueError(
                f"there are already {len(self._groups):,} groups, the limit is {most:,} (maxSubscriptionGroups)"
            )
        for group in changed:
            _LOG.info("group %s was %s", group, self._groups.get(group.group_name))
            self._groups[group.group_name] = group
        self._save(then)

    def _with_attributes(self, group: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        wrong = wrong_group(group.group_name)
        if wrong is not None:
            raise ValueError(wrong)
        known = self._groups.get(group.group_name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(GROUP_ATTRIBUTES, current, group.attributes)
        return replace(group, attributes=attributes)

    def delete(self, group: str, then: Callable[[], object] | None = None) -> None:
        """Delete a group; `then` is called when that is on disk. An unknown group is not an error."""
        self._forbidden.pop(group, None)
        if self._groups.pop(group, None) is not None:
            _LOG.info("group %s is deleted", group)
            self._save(then)
            return
        _LOG.warning("group %s is unknown: nothing to delete", shown_value(group))
        if then is not None:
            then()

    def _save(self, then: Callable[[], object] | None) -> None:
        self._version = self._version.next(self._now_ms())
        self._files.save(FILE, self._saved, then)

    def _saved(self) -> Callable[[], dict[str, Any]]:
        return self.table().as_json


def _parse(saved: dict[str, Any]) -> SubscriptionGroupTable:
    return subscription_group_table(JsonObject(FILE, "", saved))
