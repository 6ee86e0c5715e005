"""Every diagnosis: its severity, the cause, the safe next step, and the command to type. docs/doctor.md has the same texts.

A command only reads, writes beside the store, or keeps what it replaces. ``{store}`` stands for the store's path, other names for
what a check gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.maintenance.doctor.report import ERROR, INFO, WARNING

FSCK = "rmqcore fsck {store}"
RECOVER = "rmqcore recover {store}"
DEEP = "rmqcore recover {store} --deep"
RETENTION = "rmqcore retention {store}"
SALVAGE = "rmqcore salvage {store} {store_salvaged}"
GET = "rmqcore get {store} --topic {topic} --queue {queue_id} --offset {queue_offset}"
THEN_APPLY = (
    "The command shows what an open would do; --apply does it, and keeps what it cuts in cut/."
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a diagnosis says wherever it is made."""

    severity: str
    pains: tuple[int, ...]
    cause: str
    next_step: str
    command: str


KINDS = {
    # ---- the log ----
    "damaged_log": Kind(
        ERROR,
        (1, 3, 5),
        "Bytes of the log are not a record, or a body fails its CRC: a disk, a copy or another program changed them. A start "
        "that reads that far cuts the log there, and all behind it.",
        "Do not start a broker. Copy the store away, look at the whole extent with fsck, and take what can be proven into a"
        " new store with salvage.",
        SALVAGE,
    ),
    "torn_tail": Kind(
        WARNING,
        (1, 3, 4),
        "Behind the last sound record lie bytes that are none: a record that was being written when the process or the "
        "machine died, or stale bytes.",
        "Nothing that a sync had confirmed lies there. " + THEN_APPLY,
        RECOVER,
    ),
    "log_file_size": Kind(
        ERROR,
        (2, 7, 17),
        "A file of the log has another length than its neighbours: it was half made on a full disk, cut, or its copy was "
        "interrupted. A broker refuses to start.",
        "Copy the file again from where the store came from. Where there is no other copy, take what can be proven into a "
        "new store with salvage.",
        SALVAGE,
    ),
    "log_file_name": Kind(
        ERROR,
        (7, 17),
        "A name among the files of the log is no offset, or does not fit the others: an editor's backup, or a file that was"
        " renamed. A broker refuses to start.",
        "Move what is no file of the log out of the directory; do not delete it.",
        FSCK,
    ),
    "log_file_twice": Kind(
        ERROR,
        (7, 17),
        "A file of the log lies in two directories: a copy went into the wrong one, or a disk was put in place of another. "
        "Nothing opens the store, since it is not known which of the two is the log's.",
        "Move the file that the evidence names out of the log's directories, and keep it until fsck finds the store sound.",
        FSCK,
    ),
    "log_hole": Kind(
        ERROR,
        (3, 7, 17),
        "A file of the log is missing between two others: it was deleted by hand, or not copied. Its messages are gone, and"
        " a broker's dispatch waits in front of it.",
        "Put the file back from a copy. Where there is none, take what is left into a new store with salvage.",
        SALVAGE,
    ),
    "log_missing": Kind(
        ERROR,
        (7, 17),
        "There are queues with messages and no file of the log: its disk is not mounted, or it lies elsewhere "
        "(storePathCommitLog). RocketMQ deletes all queues when it is started like this.",
        "Do not start a broker. Mount the disk, or name the log's directory with --commitlog.",
        "rmqcore info {store}",
    ),
    "log_only": Kind(
        INFO,
        (3, 17),
        "There is a CommitLog and nothing else of a store: somebody copied commitlog/ alone. No broker ran here.",
        "cat, export, stats and fsck read it as it is. For a get by queue and a query by key make queues and index from it.",
        "rmqcore rebuild {store} --cq --index --out {store_rebuilt}",
    ),
    "moved_log": Kind(
        ERROR,
        (8, 17),
        "The records of a file say that they lie elsewhere: the file was renamed, or the log was put together from another "
        "store's. Offsets of queues and index lead to other messages.",
        "Give the file the name that its first record says, or copy the directory again as it is.",
        "mv -n {log_file} {log_name}",
    ),
    "clock_step": Kind(
        WARNING,
        (10, 11),
        "Store times step back from one file of the log to a later one, or lie in the future: the machine's clock was set. "
        "Searches by time and by key in a range of time leave messages out.",
        "Keep the clock with NTP. Messages are all there: read them by offset, or without a range of time.",
        "rmqcore cat {store} --from-phy {phy_offset} --limit 3 --body none",
    ),
    "cut_away": Kind(
        INFO,
        (3, 5),
        "An earlier recovery has cut bytes from the log, and kept them in cut/.",
        "Look whether there are messages among them that you miss; delete the files when not.",
        "ls -l {cut}",
    ),
    # ---- how it was closed, and who has it ----
    "unclean_exit": Kind(
        WARNING,
        (6,),
        "The abort file is there and nobody has the store: it was not cleanly closed. The next start begins to read the log "
        "at a file that the checkpoint tells, compares it with queues and index, and takes so much longer.",
        THEN_APPLY,
        RECOVER,
    ),
    "in_use": Kind(
        INFO,
        (7,),
        "Another process has the store open. What was found is what it looked like for a moment.",
        "Reading is safe. Nothing else may write to it.",
        "rmqcore info {store}",
    ),
    "checkpoint": Kind(
        ERROR,
        (3, 6),
        "The checkpoint is too short, or says that more was on disk than the log has: the log lost its end, or belongs to "
        "another checkpoint. A start after a crash begins to read too late.",
        THEN_APPLY,
        RECOVER,
    ),
    "no_checkpoint": Kind(
        WARNING,
        (6,),
        "There is no checkpoint: a start after an unclean exit reads more than it would have to.",
        "The next clean close writes one. " + THEN_APPLY,
        RECOVER,
    ),
    # ---- queues ----
    "queues_missing": Kind(
        ERROR,
        (3, 8),
        "The log has messages, and there are no queues: no consumer can fetch anything.",
        "Make them from the log, beside the store; --apply instead of --out puts them in their place.",
        "rmqcore rebuild {store} --cq --out {store_rebuilt}",
    ),
    "queues_behind": Kind(
        WARNING,
        (3, 4, 6),
        "The queues end far before the log: messages that no consumer sees until they are dispatched again.",
        THEN_APPLY,
        RECOVER,
    ),
    "queue_beyond_log": Kind(
        WARNING,
        (1, 3, 4),
        "Entries of a queue lead behind the end of the log: the log lost its end, in a power cut or in a copy that was made"
        " while the store ran. Consumers may have seen these messages; they are gone.",
        "The command shows what an open would do, and how many entries N are lost; --apply --drop N does it, and keeps what it"
        " cuts in cut/.",
        RECOVER,
    ),
    "misnamed_records": Kind(
        ERROR,
        (1, 5),
        "The newest entry of a queue leads to a record that names another topic, queue or queue offset, or no queue: a bit of "
        "its TOPIC, QUEUEID, QUEUEOFFSET or SYSFLAG changed, which no checksum covers. Consumers still get the "
        "message by the entry.",
        "Copy the store away, and look at the whole extent with fsck, which names every such entry. An open after a clean exit "
        "leaves the entry where it is.",
        FSCK,
    ),
    "place_taken": Kind(
        ERROR,
        (1, 3, 8),
        "Records of the log have the same queue offset: a broker gave it again after a crash. One of them has the place in the "
        "queue, or gets it at the next start; the other is in no queue then, and consumers do not get it.",
        "Copy the store away first. The command shows which messages (set_aside); salvage keeps them, for lookups by message id "
        "and key.",
        RECOVER,
    ),
    "queue_min_below_log": Kind(
        WARNING,
        (8,),
        "A queue begins with entries of messages that the log has deleted, a whole file of them: its minimum offset is "
        "wrong, and consumers that begin there are told OFFSET_ILLEGAL again and again.",
        "A store that is open corrects it with its next round of cleaning. The command shows what a consumer is answered.",
        GET,
    ),
    "queue_files": Kind(
        ERROR,
        (3, 7),
        "A file of a queue has another length than the others or a name that does not fit, or one is missing between "
        "others. RocketMQ refuses to start, or answers with holes.",
        "An open makes it right from the log. " + THEN_APPLY,
        DEEP,
    ),
    "group_beyond_queue": Kind(
        WARNING,
        (8,),
        "A consumer group's offset lies behind the end of its queue: the queue lost its end or was made again, or the "
        "offsets are those of another store. The group gets nothing until the queue reaches that offset, or it is set back.",
        "Set the group's offset to what the command tells as next, with mqadmin resetOffsetByTime.",
        GET,
    ),
    "many_queues": Kind(
        WARNING,
        (18,),
        "RocketMQ maps every file of the store, and there are nearly as many as the system allows a process: puts fail with"
        ' "Map failed" when there are more.',
        "Raise vm.max_map_count and the limit of open files before the broker is started again.",
        "cat /proc/sys/vm/max_map_count",
    ),
    "store_kind": Kind(
        INFO,
        (18,),
        "Not all of the store is in plain files of a log, queues and index, or a part of it is work that only a broker of "
        "Java does.",
        "docs/store-kinds.md says what each command does with it. A kind that rmqcore does not write is refused by everything "
        "that writes.",
        "rmqcore info {store}",
    ),
    "rocksdb_queues": Kind(
        INFO,
        (18,),
        "The queues are in RocksDB (storeType=defaultRocksDB). rmqcore reads them (the extra rocksdb) and does not write them.",
        "Nothing to do. A copy of the store with queues as files, which rmqcore can open, is made so.",
        "rmqcore convert {store} {store_converted} --queues file",
    ),
    "rocksdb_damaged": Kind(
        ERROR,
        (3, 7, 18),
        "The database of the queues lacks a file, or a file of it is damaged. RocketMQ refuses to start, or serves a part.",
        "Copy the store away first. The log has the messages: make queues from it beside the store, and compare.",
        "rmqcore rebuild {store} --cq --out {store_rebuilt}",
    ),
    # ---- work of a Java broker ----
    "timer_waiting": Kind(
        WARNING,
        (8,),
        "Timed messages wait in Java's timer wheel (timerwheel, timerlog). rmqcore does not deliver them.",
        "Let a Java broker have the store until they are delivered, or read them where they lie: their topic is "
        "rmq_sys_wheel_timer, and REAL_TOPIC says for whom they are.",
        "rmqcore cat {store} --topic rmq_sys_wheel_timer --limit 3 --body none",
    ),
    "pop_waiting": Kind(
        WARNING,
        (8,),
        "POP consumers were given messages and have not acknowledged them. A Java broker gives them to consumers again; "
        "rmqcore does not.",
        "Let a Java broker have the store until they are acknowledged. A group that continues with ordinary pulls does not get"
        " them: their offsets lie behind its own.",
        "rmqcore info {store}",
    ),
    "delay_offset": Kind(
        WARNING,
        (8,),
        "delayOffset.json says that a delay level was delivered up to a place outside of its queue: the queue lost its end or "
        "was made again, or the file is another store's. A broker continues at the queue's start or end, so messages are "
        "delivered again, or not at all.",
        "Put the file back from the store's own backup before a broker is started.",
        "rmqcore info {store}",
    ),
    # ---- index ----
    "index_files": Kind(
        WARNING,
        (10,),
        "A file of the index has another length than the others, or a header that does not fit the log: queries by key find"
        " nothing, or the wrong messages.",
        "Make the index anew, beside the store; --apply instead of --out puts it in its place.",
        "rmqcore rebuild {store} --index --out {store_rebuilt}",
    ),
    "index_missing": Kind(
        INFO,
        (10,),
        "The log has messages and there is no index: queries by key find nothing.",
        "Make it from the log, beside the store; --apply instead of --out puts it in its place.",
        "rmqcore rebuild {store} --index --out {store_index}",
    ),
    "index_grows": Kind(
        WARNING,
        (10, 11),
        "Files of the index speak of nothing but messages that the log has deleted, and are not deleted themselves: they "
        "fill the disk.",
        "A store that is open deletes them with its next round of cleaning that deletes a file of the log; or make the "
        "index anew.",
        "rmqcore rebuild {store} --index --out {store_rebuilt}",
    ),
    # ---- files of the configuration ----
    "torn_config": Kind(
        ERROR,
        (9,),
        "A file of config/ is torn and has no backup that can be read: a power cut came while it was written. A broker "
        "starts without what it held: topics, subscriptions, or the offsets of all groups.",
        "Put it back from a backup before a broker is started: a start writes a new one. The queues show topics and their "
        "number.",
        "rmqcore info {store} --json",
    ),
    "torn_config_with_backup": Kind(
        WARNING,
        (9,),
        "A file of config/ is torn, and its .bak can be read: a broker takes the backup, which may be a few seconds older.",
        "Put the backup in its place; the torn file is kept under another name.",
        "mv -n {config_file} {config_torn} && cp -p {backup} {config_file}",
    ),
    "config_sizes": Kind(
        ERROR,
        (7, 17),
        "The broker.conf has another size for files than the files have: RocketMQ refuses to start.",
        "Set the size in the broker.conf to what the files have.",
        "rmqcore info {store}",
    ),
    # ---- disk and time ----
    "disk_full": Kind(
        ERROR,
        (2, 11),
        "The disk is used by more than diskSpaceWarningLevelRatio: puts are refused.",
        "Free room beside the store; do not delete files of it by hand. The command tells what the rules will delete, and "
        "when.",
        RETENTION,
    ),
    "disk_nearly_full": Kind(
        WARNING,
        (11,),
        "The disk is used by more than diskMaxUsedSpaceRatio or diskSpaceCleanForciblyRatio: files are deleted at any hour,"
        " above the second one before their time.",
        "The command tells what goes when; --what-if fileReservedTime=N what a shorter time would change.",
        RETENTION,
    ),
    "disk_fills": Kind(
        WARNING,
        (11,),
        "At the log's write rate the disk is full, or used by more than diskSpaceWarningLevelRatio, within a week.",
        "Add room, or keep messages for a shorter time: the command shows what that changes.",
        "rmqcore retention {store} --what-if fileReservedTime={shorter}",
    ),
    "unread_lost": Kind(
        WARNING,
        (8, 11),
        "Messages were deleted that a consumer group had not read.",
        "The group goes on at the queue's minimum. Keep messages longer (fileReservedTime), or find out why the group is so"
        " slow.",
        RETENTION,
    ),
    "unread_goes": Kind(
        WARNING,
        (11,),
        "Messages that a consumer group has not read are deleted within a day.",
        "Let the group catch up, or save the messages with export; the command tells which and when.",
        RETENTION,
    ),
    "files_overdue": Kind(
        WARNING,
        (11,),
        "A process has the store open, and files of the log whose time was over two days ago are still there: its cleaning "
        "does not get on, or it runs with another broker.conf.",
        "Look into the broker's log for what keeps it from deleting, and whether it runs with this broker.conf.",
        RETENTION,
    ),
    "files_stay": Kind(
        WARNING,
        (11,),
        "Files of the log have a time in the future: they are not deleted before it, nor are any behind them.",
        "Set their times to those of their newest messages with touch -d.",
        RETENTION,
    ),
    "owners": Kind(
        WARNING,
        (7,),
        "Files of the store belong to different users, or this one may not read or write them: a broker was started by "
        "another user, as after a copy by root.",
        "Give all files to the user that runs the broker, while it is stopped.",
        "ls -ln {commitlog}",
    ),
    "unreadable": Kind(
        ERROR,
        (7,),
        "This user may not read a part of the store, or its disk does not give it: nothing is known of that part.",
        "Run the command again as the user that owns the part; the command shows who that is. Where its owner cannot read it "
        "either, the disk fails: copy away what can be read.",
        "ls -ldn {unreadable}",
    ),
    "odd_files": Kind(
        ERROR,
        (7, 17),
        "A link, FIFO, socket or device, or a second name of a file, lies in the place of a file or directory of the store,"
        " or a directory in that of a file: it was not followed.",
        "Move it away, or put in its place what it leads to; a log on another disk is better named with storePathCommitLog.",
        FSCK,
    ),
    "not_looked_at": Kind(
        WARNING,
        (7,),
        "A part of the store could not be looked at.",
        "Look at what the system says of it; fsck tells more of files that do not fit together.",
        FSCK,
    ),
    # ---- thorough ----
    "fsck_errors": Kind(
        ERROR,
        (1, 3, 5, 8),
        "Comparing everything with everything found damage, or messages that no consumer can fetch.",
        "Copy the store away first. Queues and index heal from the log (recover --deep --apply); what the log lost is in no"
        " tool's power, what is left of it is taken into a new store by salvage. Of two records with one queue offset one is"
        " in no queue; salvage keeps it for lookups by message id and key.",
        FSCK,
    ),
    "fsck_warnings": Kind(
        WARNING,
        (3, 8, 10),
        "Comparing everything with everything found what a start repairs, or what is odd.",
        THEN_APPLY,
        DEEP,
    ),
}
