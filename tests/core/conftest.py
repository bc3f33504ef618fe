"""Lets the assertions of the modules that these tests share explain themselves as those of the tests do."""

import pytest

pytest.register_assert_rewrite("stream_twins")
