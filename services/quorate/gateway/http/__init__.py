"""HTTP: probes, metrics, the operator's API and the schema registry of a node."""

from quorate.gateway.http.context import HttpContext, NodeInfo, StorageInfo
from quorate.gateway.http.interface import interface
from quorate.gateway.http.server import HttpServer
from quorate.gateway.http.settings import HttpSettings

__all__ = ["HttpContext", "HttpServer", "HttpSettings", "NodeInfo", "StorageInfo", "interface"]
