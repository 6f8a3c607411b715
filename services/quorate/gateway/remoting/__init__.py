"""RocketMQ's remoting protocol for brokers, clients and ``mqadmin``: the listener, what requests mean to a controller
and to a name server, calls to brokers.
"""

from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.server import RemotingServer
from quorate.gateway.remoting.service import RemotingService
from quorate.gateway.remoting.settings import RemotingSettings

__all__ = ["RemotingServer", "RemotingService", "RemotingSettings", "RolePusher"]
