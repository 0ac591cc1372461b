"""Loopback and nothing else: agents like to call home, and nothing that runs here has any business there."""
import ctypes
import fcntl
import os
import socket
import struct

NEW_USER, NEW_NET = 0x10000000, 0x40000000
SET_FLAGS, UP_AND_RUNNING = 0x8914, 0x41


def seal():
    """Moves this process, and all that it starts from now on, into a network that has only loopback. Says whether it could."""
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    if unshare is None:
        return False
    user, group = os.getuid(), os.getgid()
    if unshare(NEW_NET) != 0:
        if unshare(NEW_USER | NEW_NET) != 0:
            return False
        for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as table:
                table.write(line)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh22x", b"lo", UP_AND_RUNNING))
    return True
