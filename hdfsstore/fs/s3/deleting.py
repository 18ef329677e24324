"""Deletes objects, a thousand by one request where the server can do that. What has become of each is looked at.

of a page                          what happens
the answer names a key as deleted  it is gone, or was not there
it has an error that may pass, or  the rest of the page is asked for again
says nothing of a key
it has another error for a key     the key is counted, and the others are deleted
the server cannot do pages         each key is deleted by a request of its own
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure, failure_of_key
from hdfsstore.fs.unknown_outcomes import Tries, UnknownOutcomes

_PAGE = 1000
_CANNOT_DO_PAGES = {400, 405, 411, 501}
_MISSING = 404


def delete_objects(bucket: Bucket, unknown: UnknownOutcomes, keys: Iterable[str]) -> None:
    """Deletes objects. Missing ones are no error. Memory: one page.

    Raises:
        StateStoreError: some could not be deleted. It names one, and says how many they are. All others are gone,
            unless no key can be deleted: the server cannot be reached, or does not accept the credentials.
        FileSystemTimeoutError: there was no answer in time, or an earlier write of a file may still take effect.
    """
    undeleted = _Undeleted(bucket)
    left = iter(keys)
    in_pages = True
    while page := list(islice(left, _PAGE)):
        for key in page:
            unknown.check_deletion(key)
        if in_pages and len(page) > 1:
            with unknown.of_deletion(page) as tries:
                in_pages = _delete_page(bucket, page, undeleted, tries)
        if not in_pages or len(page) == 1:
            for key in page:
                with unknown.of_deletion((key,)) as tries:
                    _delete(bucket, key, undeleted, tries)
    undeleted.check()


class _Undeleted:
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._first: tuple[str, S3Failure] | None = None
        self._number = 0

    def add(self, key: str, found: S3Failure) -> None:
        self._first = self._first or (key, found)
        self._number += 1

    def check(self) -> None:
        if self._first is None:
            return
        key, found = self._first
        if self._number > 1:
            found.args = (f"it, and {self._number - 1} more, could not be deleted: {found}",)
        raise self._bucket.error(found, key)


def _delete_page(bucket: Bucket, keys: list[str], undeleted: _Undeleted, tries: Tries) -> bool:
    """Returns False if the server cannot do that; then nothing was deleted."""
    pending = dict.fromkeys(keys)

    def arguments() -> dict[str, Any]:
        return {"Delete": {"Objects": [{"Key": key} for key in pending]}, **bucket.of_all}

    def look(answer: dict[str, Any]) -> None:
        for each in answer.get("Deleted", ()):
            pending.pop(each["Key"], None)
        why = "the answer does not name it"
        for each in answer.get("Errors", ()):
            found = failure_of_key(each)
            if found.may_pass:
                why = str(found)
            elif each["Key"] in pending:
                del pending[each["Key"]]
                undeleted.add(each["Key"], found)
        if pending:
            raise S3Failure(f"{len(pending)} of {len(keys)} objects were not deleted: {why}", may_pass=True)

    try:
        bucket.ask("DELETE page", "delete_objects", keys[0], arguments, then=look, tries=tries)
    except S3Failure as found:
        if found.status in _CANNOT_DO_PAGES and len(pending) == len(keys):
            return False
        raise bucket.error(found, keys[0]) from None
    return True


def _delete(bucket: Bucket, key: str, undeleted: _Undeleted, tries: Tries) -> None:
    try:
        bucket.ask("DELETE", "delete_object", key, {"Key": key, **bucket.of_all}, tries=tries)
    except S3Failure as found:
        if found.status == _MISSING and found.code != "NoSuchBucket":
            return
        if found.code != "AccessDenied":
            raise bucket.error(found, key) from None
        undeleted.add(key, found)
