import pytest

from gateway.domain import errors


@pytest.mark.parametrize(
    ("error", "status", "code", "text"),
    [
        (errors.InvalidRequest("a.b", "must be > 0"), 422, "invalid_request",
         "a.b: must be > 0"),
        (errors.InvalidRequest("", "not JSON"), 422, "invalid_request", "not JSON"),
        (errors.RefusedOptions("too big\nreally"), 422, "refused_options",
         "too big\nreally"),
        (errors.Unauthenticated(), 401, "unauthenticated", "Authentication required"),
        (errors.Forbidden("admins only"), 403, "forbidden", "admins only"),
        (errors.ClusterNotFound("c1"), 404, "cluster_not_found",
         "Cluster c1 not found"),
        (errors.ClusterNotRunning("it failed"), 409, "cluster_not_running",
         "it failed"),
        (errors.LimitExceeded("full"), 422, "limit_exceeded", "full"),
        (errors.BackendError("disk"), 500, "backend_error", "disk"),
        (errors.Unavailable("database"), 503, "unavailable", "database"),
        (errors.Rejected("quota"), 409, "rejected", "quota"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)  # fmt: skip
def test_each_error_has_its_status_code_and_text(error, status, code, text) -> None:
    assert (error.http_status, error.code, str(error)) == (status, code, text)


def test_only_what_may_pass_by_itself_is_tried_again() -> None:
    assert errors.Unavailable("database", retry_after_s=5).retry_after_s == 5
    assert errors.Unavailable("database").retryable
    assert not errors.Rejected("quota").retryable
    assert not errors.BackendError("disk").retryable


def test_a_challenge_goes_with_the_refusal() -> None:
    error = errors.Unauthenticated("no such user", challenge="Basic")

    assert (str(error), error.challenge) == ("no such user", "Basic")


def test_a_configuration_names_all_problems_and_ends_with_ex_config() -> None:
    error = errors.ConfigError(["one", "two"])

    assert error.problems == ("one", "two")
    assert str(error) == "one\ntwo"
    assert error.exit_status == 78


def test_a_missing_cluster_keeps_its_name() -> None:
    assert errors.ClusterNotFound("c1").name == "c1"
