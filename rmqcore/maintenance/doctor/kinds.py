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
    "The command shows what an open would do; --apply does it, and keeps the cut bytes in cut/."
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Severity, texts and command of a diagnosis."""

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
        "Bytes of the log are not a record, or a body fails its CRC: a disk, a copy or another "
        "program changed them. A broker start that reads that far cuts the log there and drops "
        "everything behind it.",
        "Do not start a broker. Make a copy of the store, list all damage with fsck, and save the "
        "sound messages into a new store with salvage.",
        SALVAGE,
    ),
    "torn_tail": Kind(
        WARNING,
        (1, 3, 4),
        "The bytes behind the last sound record are not a record: the process or machine died "
        "while a record was written, or the bytes are stale.",
        "Messages that a sync had confirmed are not affected. " + THEN_APPLY,
        RECOVER,
    ),
    "log_file_size": Kind(
        ERROR,
        (2, 7, 17),
        "A file of the log differs in length from its neighbours: it was created incompletely on "
        "a full disk, truncated, or its copy was interrupted. A broker refuses to start.",
        "Copy the file again from where the store came from. If there is no other copy, save the "
        "sound messages into a new store with salvage.",
        SALVAGE,
    ),
    "log_file_name": Kind(
        ERROR,
        (7, 17),
        "A file in the log's directory has a name that is not an offset or does not fit the other "
        "files: an editor's backup, or a renamed file. A broker refuses to start.",
        "Move files that do not belong to the log out of the directory; do not delete them.",
        FSCK,
    ),
    "log_file_twice": Kind(
        ERROR,
        (7, 17),
        "Two directories hold the same file of the log: a copy went into the wrong directory, or "
        "a disk was swapped. Neither a broker nor rmqcore opens the store, because either file "
        "could be the right one.",
        "Move the file named in the evidence out of the log's directories, and keep it until fsck "
        "reports a sound store.",
        FSCK,
    ),
    "log_hole": Kind(
        ERROR,
        (3, 7, 17),
        "A file of the log is missing between two others: it was deleted by hand, or not copied. Its messages are gone, and"
        " a broker's dispatch waits in front of it.",
        "Restore the file from a copy. If there is none, save the remaining messages into a new "
        "store with salvage.",
        SALVAGE,
    ),
    "log_missing": Kind(
        ERROR,
        (7, 17),
        "The queues have messages, but the log has no file, or its files have no message: its disk "
        "is not mounted, or it is in another directory (storePathCommitLog). A RocketMQ broker "
        "that starts in this state deletes all queues.",
        "Do not start a broker. Mount the disk, or name the log's directory with --commitlog.",
        "rmqcore info {store}",
    ),
    "log_only": Kind(
        INFO,
        (3, 17),
        "The store consists of a CommitLog only: commitlog/ was copied without the other "
        "directories. No broker has run here.",
        "cat, export, stats and fsck work without queues and index. To get by queue or query by "
        "key, build them from the log.",
        "rmqcore rebuild {store} --cq --index --out {store_rebuilt}",
    ),
    "moved_log": Kind(
        ERROR,
        (8, 17),
        "Records of a file name another offset than the one where they are stored: the file was "
        "renamed, or comes from another store's log. Queues and index point to other messages.",
        "Rename the file to the offset in its first record, or copy the directory again unchanged.",
        "mv -n {log_file} {log_name}",
    ),
    "unread_by_release": Kind(
        WARNING,
        (1, 7),
        "The log has records that the RocketMQ release of for_version cannot read: it was written "
        "without that setting, or by a newer broker. That release ends the log at the first of "
        "them when it starts, and drops everything behind it.",
        "Do not give the store to that release. Make a store without these records with salvage; "
        "its report names each of them.",
        "rmqcore salvage {store} {store_salvaged} --for-version {release}",
    ),
    "clock_step": Kind(
        WARNING,
        (10, 11),
        "Store times decrease from one file of the log to the next, or are in the future: the "
        "machine's clock was changed. Searches by time, or by key within a range of time, can "
        "miss messages.",
        "Synchronize the clock with NTP. No message is lost: read by offset, or without a range "
        "of time.",
        "rmqcore cat {store} --from-phy {phy_offset} --limit 3 --body none",
    ),
    "cut_away": Kind(
        INFO,
        (3, 5),
        "An earlier recovery cut bytes from the log and kept them in cut/.",
        "Check whether they contain messages that you need; delete the files if not.",
        "ls -l {cut}",
    ),
    # ---- how it was closed, and who has it ----
    "unclean_exit": Kind(
        WARNING,
        (6,),
        "The abort file exists and no process has the store open: it was not closed cleanly. The "
        "next start takes longer: from the file that the checkpoint determines on, it reads the "
        "log and compares queues and index with it.",
        THEN_APPLY,
        RECOVER,
    ),
    "in_use": Kind(
        INFO,
        (7,),
        "Another process has the store open and changes it; the findings describe one moment.",
        "Reading is safe. No other process may write to the store.",
        "rmqcore info {store}",
    ),
    "checkpoint": Kind(
        ERROR,
        (3, 6),
        "The checkpoint is too short, or it is ahead of the log: the log lost its end, or the "
        "checkpoint belongs to another store. Recovery after a crash would start reading too late.",
        THEN_APPLY,
        RECOVER,
    ),
    "no_checkpoint": Kind(
        WARNING,
        (6,),
        "There is no checkpoint: a start after an unclean exit reads more of the log than "
        "necessary.",
        "The next clean close writes one. " + THEN_APPLY,
        RECOVER,
    ),
    # ---- queues ----
    "queues_missing": Kind(
        ERROR,
        (3, 8),
        "The log has messages, but there are no queues: consumers cannot fetch anything.",
        "Build the queues from the log into a new directory; with --apply instead of --out they "
        "are put into the store.",
        "rmqcore rebuild {store} --cq --out {store_rebuilt}",
    ),
    "queues_behind": Kind(
        WARNING,
        (3, 4, 6),
        "The queues end far before the log: consumers cannot see the messages behind that point "
        "until they are dispatched.",
        THEN_APPLY,
        RECOVER,
    ),
    "queue_beyond_log": Kind(
        ERROR,
        (1, 3, 4),
        "Entries of a queue point behind the end of the log: the log lost its end, in a power cut "
        "or in a copy made while the store was running. These messages are lost; consumers may "
        "have received them already. After an unclean exit this is a warning.",
        "The command shows what an open would do, and the number N of entries that are lost; "
        "--apply --drop N does it, and keeps the cut bytes in cut/.",
        RECOVER,
    ),
    "misnamed_records": Kind(
        ERROR,
        (1, 5),
        "The newest entry of a queue points to a record of another topic, queue or queue offset, "
        "or of none: a bit of its TOPIC, QUEUEID, QUEUEOFFSET or SYSFLAG changed, which no "
        "checksum covers. Consumers still get the message through the entry.",
        "Make a copy of the store, and list all such entries with fsck. An open after a clean "
        "exit does not change the entry.",
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
    "queue_entries": Kind(
        ERROR,
        (1, 3, 8),
        "A queue lacks entries of messages that the log has, or its entries lead to other messages: "
        "files of the queue were lost, or come from another store or queue. Consumers do not get "
        "these messages, or get others.",
        "Make a copy of the store, and undo the renaming of files and directories. Otherwise an "
        "open repairs the queue from the log. " + THEN_APPLY,
        DEEP,
    ),
    "queue_min_below_log": Kind(
        WARNING,
        (8,),
        "A queue starts with at least a whole file of entries whose messages the log has deleted: "
        "its minimum offset is wrong, and consumers that start there get OFFSET_ILLEGAL "
        "repeatedly.",
        "An open store corrects this in its next cleaning round. The command shows what a "
        "consumer gets.",
        GET,
    ),
    "queue_files": Kind(
        ERROR,
        (3, 7),
        "A file of a queue differs in length from the others, has a name that does not fit, or is "
        "missing between others. RocketMQ refuses to start, or its queues have gaps.",
        "An open repairs the queue from the log. " + THEN_APPLY,
        DEEP,
    ),
    "group_beyond_queue": Kind(
        WARNING,
        (8,),
        "A consumer group's offset is behind the end of its queue: the queue lost its end or was "
        "recreated, or the offsets come from another store. The group gets no messages until the "
        "queue reaches that offset or the offset is reset.",
        "Reset the group's offset to the next offset that the command shows, with mqadmin "
        "resetOffsetByTime.",
        GET,
    ),
    "many_queues": Kind(
        WARNING,
        (18,),
        "RocketMQ maps every file of the store, and their number is close to the system's limit per process: "
        "beyond it, puts fail with"
        ' "Map failed".',
        "Raise vm.max_map_count and the limit of open files before you restart the broker.",
        "cat /proc/sys/vm/max_map_count",
    ),
    "store_kind": Kind(
        INFO,
        (18,),
        "Parts of the store are not plain files of a log, queues and index, or need work that "
        "only a Java broker does.",
        "docs/store-kinds.md lists what each command does with it. Every command that writes "
        "refuses kinds that rmqcore cannot write.",
        "rmqcore info {store}",
    ),
    "rocksdb_queues": Kind(
        INFO,
        (18,),
        "The queues are in RocksDB (storeType=defaultRocksDB). rmqcore reads them (the extra rocksdb) and does not write them.",
        "Nothing needs to be done. The command makes a copy of the store with queues as files, "
        "which rmqcore can open.",
        "rmqcore convert {store} {store_converted} --queues file",
    ),
    "rocksdb_damaged": Kind(
        ERROR,
        (3, 7, 18),
        "The database of the queues lacks a file, or a file of it is damaged. RocketMQ refuses to "
        "start, or serves only some of the queues.",
        "Make a copy of the store first. The log has the messages: build queues from it into a "
        "new directory, and compare.",
        "rmqcore rebuild {store} --cq --out {store_rebuilt}",
    ),
    "compaction_files": Kind(
        ERROR,
        (7,),
        "A file of compaction/ is missing, or its name or length is wrong: files were lost, or a copy was interrupted. RocketMQ "
        "refuses to start, or does not serve the queue.",
        "Do not delete the directory: for messages that the log has deleted it is the only place. Copy the files of the queue, "
        "from compactionLog and compactionCq, from a backup or from another broker of the group.",
        FSCK,
    ),
    # ---- work of a Java broker ----
    "timer_waiting": Kind(
        WARNING,
        (8,),
        "Timed messages wait in Java's timer wheel (timerwheel, timerlog). rmqcore does not deliver them.",
        "Run a Java broker on the store until they are delivered, or read them from the topic "
        "rmq_sys_wheel_timer; their property REAL_TOPIC is the destination.",
        "rmqcore cat {store} --topic rmq_sys_wheel_timer --limit 3 --body none",
    ),
    "pop_waiting": Kind(
        WARNING,
        (8,),
        "POP consumers received messages and have not acknowledged them. A Java broker delivers "
        "them again; rmqcore does not.",
        "Run a Java broker on the store until they are acknowledged. A group that continues with "
        "ordinary pulls does not get them: their offsets are before its own.",
        "rmqcore info {store}",
    ),
    "delay_offset": Kind(
        WARNING,
        (8,),
        "delayOffset.json has an offset of a delay level that is outside its queue: the queue "
        "lost its end or was recreated, or the file comes from another store. A broker continues "
        "at the queue's start or end, so messages are delivered again or not at all.",
        "Restore the file from a backup of this store before you start a broker.",
        "rmqcore info {store}",
    ),
    # ---- index ----
    "index_files": Kind(
        WARNING,
        (10,),
        "An index file differs in length from the others, is missing, or does not fit the log: "
        "queries by key find nothing, or wrong messages.",
        "Build a new index into a new directory; with --apply instead of --out it is put into the "
        "store.",
        "rmqcore rebuild {store} --index --out {store_rebuilt}",
    ),
    "index_missing": Kind(
        INFO,
        (10,),
        "The log has messages, but there is no index: queries by key find nothing.",
        "Build the index from the log into a new directory; with --apply instead of --out it is "
        "put into the store.",
        "rmqcore rebuild {store} --index --out {store_index}",
    ),
    "index_grows": Kind(
        WARNING,
        (10, 11),
        "Index files cover only messages that the log has deleted, but were not deleted with "
        "them: they use disk space.",
        "An open store deletes them in the next cleaning round that deletes a file of the log; or "
        "rebuild the index.",
        "rmqcore rebuild {store} --index --out {store_rebuilt}",
    ),
    # ---- files of the configuration ----
    "torn_config": Kind(
        ERROR,
        (9,),
        "A file of config/ is incomplete and has no readable backup: the power failed while it "
        "was written. A broker starts without its content: topics, subscriptions, or the offsets "
        "of all groups.",
        "Restore it from a backup before you start a broker, because a start writes a new one. "
        "The command lists topics and their queues.",
        "rmqcore info {store} --json",
    ),
    "torn_config_with_backup": Kind(
        WARNING,
        (9,),
        "A file of config/ is incomplete, but its .bak is readable: a broker reads the .bak, "
        "which may be a few seconds older.",
        "Replace the file by its .bak; the commands keep the incomplete file under another name.",
        "mv -n {config_file} {config_torn} && cp -p {backup} {config_file}",
    ),
    "config_sizes": Kind(
        ERROR,
        (7, 17),
        "The file size in broker.conf differs from the size of the files: RocketMQ refuses to "
        "start.",
        "Set the size in broker.conf to that of the files.",
        "rmqcore info {store}",
    ),
    # ---- disk and time ----
    "disk_full": Kind(
        ERROR,
        (2, 11),
        "Disk usage is above diskSpaceWarningLevelRatio: puts are refused.",
        "Free disk space outside the store; do not delete its files by hand. The command lists "
        "what the cleaning rules will delete, and when.",
        RETENTION,
    ),
    "disk_nearly_full": Kind(
        WARNING,
        (11,),
        "Disk usage is above diskMaxUsedSpaceRatio or diskSpaceCleanForciblyRatio: expired files "
        "are deleted at any hour, and above the second ratio also files that have not expired.",
        "The command lists what is deleted when; --what-if fileReservedTime=N shows the effect of "
        "a shorter time.",
        RETENTION,
    ),
    "disk_fills": Kind(
        WARNING,
        (11,),
        "At the log's write rate, disk usage exceeds diskSpaceWarningLevelRatio, or the disk is "
        "full, within a week.",
        "Add disk space, or keep messages for a shorter time: the command shows the effect.",
        "rmqcore retention {store} --what-if fileReservedTime={shorter}",
    ),
    "unread_lost": Kind(
        WARNING,
        (8, 11),
        "Messages were deleted before a consumer group had read them.",
        "The group continues at the queue's minimum offset. Keep messages longer "
        "(fileReservedTime), or find out why the group is slow.",
        RETENTION,
    ),
    "unread_goes": Kind(
        WARNING,
        (11,),
        "Within a day, messages will be deleted that a consumer group has not read.",
        "Let the group catch up, or save the messages with export; the command lists which are "
        "deleted, and when.",
        RETENTION,
    ),
    "files_overdue": Kind(
        WARNING,
        (11,),
        "A process has the store open, but files of the log that expired two days ago still exist: "
        "cleaning does not work, or the process uses another broker.conf.",
        "Check the broker's log for the reason, and whether the broker uses this broker.conf.",
        RETENTION,
    ),
    "files_stay": Kind(
        WARNING,
        (11,),
        "Files of the log have a modification time in the future: they, and all files behind "
        "them, are kept until then.",
        "Set their modification times to the store times of their newest messages with touch -d.",
        RETENTION,
    ),
    "owners": Kind(
        WARNING,
        (7,),
        "Files of the store belong to different users, or this user cannot read or write them: "
        "another user, such as root, started a broker or copied the store.",
        "Stop the broker, and change the owner of all files to the user that runs it.",
        "ls -ln {commitlog}",
    ),
    "unreadable": Kind(
        ERROR,
        (7,),
        "This user is not allowed to read a part of the store, or its disk fails to read it: that "
        "part was not checked.",
        "Run doctor again as the owner of that part, which the command shows. If the owner cannot "
        "read it either, the disk is failing: copy the readable files elsewhere.",
        "ls -ldn {unreadable}",
    ),
    "odd_files": Kind(
        ERROR,
        (7, 17),
        "In place of a file or directory of the store there is a link, FIFO, socket, device, hard "
        "link or directory: it was not followed.",
        "Move it away, or replace it by the file that it points to; for a log on another disk use "
        "storePathCommitLog.",
        FSCK,
    ),
    "not_looked_at": Kind(
        WARNING,
        (7,),
        "A part of the store could not be checked.",
        "Read the system's error in the evidence; fsck lists more about files that do not fit "
        "together.",
        FSCK,
    ),
    # ---- thorough ----
    "fsck_errors": Kind(
        ERROR,
        (1, 3, 5, 8),
        "The complete comparison found damage, or messages that consumers cannot fetch.",
        "Make a copy of the store first. recover --deep --apply repairs queues and index from the "
        "log; damaged messages of the log cannot be repaired, and salvage saves the sound ones "
        "into a new store. If two records have one queue offset, only one is in the queue; "
        "salvage keeps the other for lookups by message id and key.",
        FSCK,
    ),
    "fsck_warnings": Kind(
        WARNING,
        (3, 8, 10),
        "The complete comparison found deviations that a start repairs, or that are unusual but "
        "harmless.",
        THEN_APPLY,
        DEEP,
    ),
}
