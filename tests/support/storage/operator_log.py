"""The log of an operator in a test: it keeps the sentences that storage writes."""


class OperatorLog:
    """Keeps every sentence, and apart from the others those that are warnings."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.warnings: list[str] = []

    def notice(self, text: str) -> None:
        self.sentences.append(text)

    def warning(self, text: str) -> None:
        self.sentences.append(text)
        self.warnings.append(text)
