"""The names of every refusal, and the one table that maps them to RocketMQ's response codes.

Rules: a name says why and never changes meaning; two situations RocketMQ tells apart only by remark get two names.
Remarks of RocketMQ's own refusals are Java's, character for character (``ReplicasInfoManager``, ``TopicValidator``,
``AttributeUtil``), because ``mqadmin`` prints them.
"""

from typing import Final, Literal

from quorate.metadata.commands import MasterIs, Refusal, Reply

Code = Literal[
    "WrongCluster",
    "BrokerIdNotFirst",
    "BrokerIdTaken",
    "BrokerIdInvalid",
    "BrokerSetFull",
    "BrokerSetNotRegistered",
    "BrokerNotRegistered",
    "BrokerAlreadyServes",
    "BrokerSetUnknown",
    "SyncStateSetOfUnknownBrokerSet",
    "SyncStateSetUnchanged",
    "MasterNotInSyncStateSet",
    "NotTheMaster",
    "StaleMasterEpoch",
    "StaleSyncStateSetEpoch",
    "UnknownReplica",
    "ReplicaNotAlive",
    "MasterStillExists",
    "ElectMasterFailed",
    "MasterNotAvailable",
    "EpochsExhausted",
    "CleanOfUnknownBrokerSet",
    "MalformedIdsToClean",
    "BrokerStillAlive",
    "MissingField",
    "InvalidText",
    "InvalidAddress",
    "NoBrokerSetsNamed",
    "InvalidTopicName",
    "SystemTopic",
    "InvalidTopicFilterType",
    "InvalidTopicSetting",
    "InvalidTopicAttribute",
    "UnknownTopic",
    "InvalidConfigScope",
    "ConfigBlackListed",
    "UnknownConfigKey",
    "InvalidConfigValue",
    "ClusterExists",
    "ClusterMissing",
    "InvalidVoters",
    "UnknownNode",
    "UnsupportedFeatureLevel",
    "InvalidDirectory",
    "DirectoryTaken",
    "DirectoryUnknown",
    "InvalidRequestId",
    "RequestExpired",
    "RequestIdReused",
    "CommandTooLarge",
    "NoRoom",
    "EmptyKey",
    "KeyNotFound",
    "ValueProvided",
    "LeaseProvided",
    "LeaseNotFound",
    "LeaseExists",
    "LeaseTtlTooLarge",
    "LeaseIsFull",
    "DuplicateKey",
    "TooManyOperations",
    "TooManyKeys",
    "UnknownMember",
    "StaleMemberEpoch",
    "MemberExists",
    "MemberStillLeads",
    "BadMemberName",
    "BadMemberIncarnation",
    "BadMemberRole",
    "BadMemberAddress",
    "BadMemberLabel",
    "BadMemberTimeout",
    "BadMemberHealth",
    "InvalidSubject",
    "ReservedSubject",
    "InvalidSchema",
    "SchemaIncompatible",
    "SchemaTooLarge",
    "TooManySchemas",
    "SubjectNotFound",
    "SubjectDeleted",
    "SubjectNotDeleted",
    "VersionNotFound",
    "VersionDeleted",
    "VersionNotDeleted",
]

SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
INVALID_PARAMETER: Final = 29
MASTER_NOT_AVAILABLE: Final = 2004
INVALID_REQUEST: Final = 2005

RESPONSE_CODES: Final[dict[str, int]] = {
    "WrongCluster": INVALID_REQUEST,
    "BrokerIdNotFirst": 2014,
    "BrokerIdTaken": 2014,
    "BrokerIdInvalid": 2014,
    "BrokerSetFull": 2014,
    "BrokerSetNotRegistered": 2010,
    "BrokerNotRegistered": 2010,
    "BrokerAlreadyServes": 2014,
    "BrokerSetUnknown": 2008,
    "SyncStateSetOfUnknownBrokerSet": 2013,
    "SyncStateSetUnchanged": 2013,
    "MasterNotInSyncStateSet": 2013,
    "NotTheMaster": 2002,
    "StaleMasterEpoch": 2000,
    "StaleSyncStateSetEpoch": 2001,
    "UnknownReplica": 2003,
    "ReplicaNotAlive": 2006,
    "MasterStillExists": 2011,
    "ElectMasterFailed": 2012,
    "MasterNotAvailable": MASTER_NOT_AVAILABLE,
    "EpochsExhausted": SYSTEM_ERROR,
    "CleanOfUnknownBrokerSet": 2009,
    "MalformedIdsToClean": 2009,
    "BrokerStillAlive": 2009,
    "MissingField": SYSTEM_ERROR,
    "InvalidText": INVALID_REQUEST,
    "InvalidAddress": INVALID_REQUEST,
    "NoBrokerSetsNamed": SYSTEM_ERROR,
    "InvalidTopicName": INVALID_PARAMETER,
    "SystemTopic": INVALID_PARAMETER,
    "InvalidTopicFilterType": SYSTEM_ERROR,
    "InvalidTopicSetting": INVALID_PARAMETER,
    "InvalidTopicAttribute": SYSTEM_ERROR,
    "UnknownTopic": TOPIC_NOT_EXIST,
    "InvalidConfigScope": INVALID_PARAMETER,
    "ConfigBlackListed": NO_PERMISSION,
    "UnknownConfigKey": INVALID_PARAMETER,
    "InvalidConfigValue": INVALID_PARAMETER,
    "ClusterExists": INVALID_REQUEST,
    "ClusterMissing": INVALID_REQUEST,
    "InvalidVoters": INVALID_REQUEST,
    "UnknownNode": INVALID_REQUEST,
    "UnsupportedFeatureLevel": INVALID_REQUEST,
    "InvalidDirectory": INVALID_REQUEST,
    "DirectoryTaken": INVALID_REQUEST,
    "DirectoryUnknown": INVALID_REQUEST,
    "InvalidRequestId": INVALID_PARAMETER,
    "RequestExpired": SYSTEM_ERROR,
    "RequestIdReused": INVALID_REQUEST,
    "CommandTooLarge": INVALID_REQUEST,
    "NoRoom": SYSTEM_BUSY,
    "EmptyKey": INVALID_PARAMETER,
    "KeyNotFound": INVALID_PARAMETER,
    "ValueProvided": INVALID_PARAMETER,
    "LeaseProvided": INVALID_PARAMETER,
    "LeaseNotFound": INVALID_PARAMETER,
    "LeaseExists": INVALID_PARAMETER,
    "LeaseTtlTooLarge": INVALID_PARAMETER,
    "LeaseIsFull": INVALID_REQUEST,
    "DuplicateKey": INVALID_PARAMETER,
    "TooManyOperations": INVALID_PARAMETER,
    "TooManyKeys": INVALID_REQUEST,
    "UnknownMember": INVALID_REQUEST,
    "StaleMemberEpoch": INVALID_REQUEST,
    "MemberExists": INVALID_REQUEST,
    "MemberStillLeads": INVALID_REQUEST,
    "BadMemberName": INVALID_PARAMETER,
    "BadMemberIncarnation": INVALID_PARAMETER,
    "BadMemberRole": INVALID_PARAMETER,
    "BadMemberAddress": INVALID_PARAMETER,
    "BadMemberLabel": INVALID_PARAMETER,
    "BadMemberTimeout": INVALID_PARAMETER,
    "BadMemberHealth": INVALID_PARAMETER,
    "InvalidSubject": INVALID_PARAMETER,
    "ReservedSubject": NO_PERMISSION,
    "InvalidSchema": INVALID_PARAMETER,
    "SchemaIncompatible": INVALID_REQUEST,
    "SchemaTooLarge": INVALID_REQUEST,
    "TooManySchemas": INVALID_REQUEST,
    "SubjectNotFound": INVALID_PARAMETER,
    "SubjectDeleted": INVALID_REQUEST,
    "SubjectNotDeleted": INVALID_REQUEST,
    "VersionNotFound": INVALID_PARAMETER,
    "VersionDeleted": INVALID_REQUEST,
    "VersionNotDeleted": INVALID_REQUEST,
}

NO_MASTER_REMARK: Final = "Old master has down and failed to elect a new broker master"


def refuse(code: Code, remark: str, reply: Reply | None = None) -> Refusal:
    """A refusal whose name the type checker knows."""
    return Refusal(code=code, remark=remark, reply=reply)


def response(answer: Reply | Refusal) -> tuple[int, str | None]:
    """RocketMQ's response code and remark for any answer of ``decide`` or of a query.

    One accepted command is an error on RocketMQ's wire: an election nobody asked for that ends without a master is
    recorded, and answered 2004 (Java ``electMaster``, its last branch).
    """
    match answer:
        case Refusal():
            return RESPONSE_CODES[answer.code], answer.remark
        case MasterIs(master=None):
            return MASTER_NOT_AVAILABLE, NO_MASTER_REMARK
        case _:
            return 0, None
