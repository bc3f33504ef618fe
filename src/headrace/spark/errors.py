"""The errors of a source or a sink: one sentence each, with the option or the stream that it is about."""

from headrace.core.errors import HeadraceError


class SparkSourceError(HeadraceError):
    """Anything that the source or the sink refuses."""


class BadOption(SparkSourceError, ValueError):
    """An option that is missing, not known, contradicts another, or has a value that means nothing."""

    def __init__(self, name: str, value: str | None, why: str) -> None:
        shown = f"option {name!r}" if value is None else f"option {name!r} is {value!r}:"
        super().__init__(f"{shown} {why}")


class BadSchema(SparkSourceError, ValueError):
    """A column that a stream cannot fill, or that cannot become a field."""


class ServerUnreachable(SparkSourceError, ConnectionError):
    """The server of the option `url` does not answer."""


class AccessRefused(SparkSourceError, PermissionError):
    """The server answers, but this user may not log in, or may not do this."""


class CommandRefused(SparkSourceError):
    """The server answered a command with an error."""


class NotAStream(SparkSourceError, TypeError):
    """The key holds something else."""


class MissingStream(SparkSourceError, KeyError):
    """A stream that the option `keys` names is not there, and `failOnMissing` is true."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError shows its argument in quotes


class DataLost(SparkSourceError):
    """Entries that a query had still to read are gone."""


class Malformed(SparkSourceError, ValueError):
    """A value that is not of its column's type, or a row that cannot become an entry."""


class UnreadableFile(SparkSourceError, ValueError):
    """The option `path` names nothing that holds streams."""


class UnreadableArchive(SparkSourceError):
    """There is no archive where one was named, or its checkpoint is somewhere else."""


class NoJava(SparkSourceError, RuntimeError):
    """There is no Java that Spark can run on."""
