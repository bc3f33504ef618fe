"""Protected mode: without a password, only this machine is served."""

from typing import Final

DENIED: Final = (
    b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
    b"default user. In this mode connections are only accepted from the loopback interface. If you want to connect "
    b"from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode "
    b"sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the "
    b"same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. "
    b"Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by "
    b"editing the Redis configuration file, and setting the protected mode option to 'no', and then restarting the "
    b"server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' "
    b"option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one of the above "
    b"things in order for the server to start accepting connections from the outside.\r\n"
)


def is_denied(peer: object, *, protected: bool, password: bool) -> bool:
    """Whether a peer has to be turned away; it is a socket's peer name: (host, port, …), or a path of a unix socket."""
    if not protected or password or not isinstance(peer, tuple):
        return False
    host = str(peer[0]).removeprefix("::ffff:")
    return not host.startswith("127.") and host != "::1"
