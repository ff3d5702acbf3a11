"""The core of the stock client's suite, its calls spread over two servers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from dask_gateway import BasicAuth, Gateway

from tests.integration.e2e import test_failures_say_why as failures
from tests.integration.e2e import test_stock_client as core
from tests.integration.e2e.conftest import OPTIONS
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.servers import Servers, running_servers
from tests.support.stack import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

# The same questions, word for word; `stack` and `gateway` are this module's.
test_create_scale_compute_stop = (
    core.test_a_cluster_is_created_scaled_computed_on_and_stopped
)
test_adapt = core.test_adapt_follows_the_work_and_returns_to_the_minimum
test_early_scale = core.test_scale_is_accepted_before_the_cluster_runs
test_limits = core.test_scale_beyond_the_limit_warns_and_is_clamped
test_options = core.test_options_are_offered_checked_and_reach_the_workers
test_refused_options = core.test_refused_options_are_a_value_error_with_the_reason
test_second_client = core.test_a_second_client_connects_by_name_and_leaves_it_running
test_lists = core.test_lists_show_active_clusters_and_others_by_status
test_other_users = core.test_another_user_neither_sees_nor_stops_it
test_stop_elsewhere = core.test_stop_by_another_process_is_seen_by_the_first
test_retiring = core.test_data_stays_whole_while_workers_retire
test_failed_starts = failures.test_a_scheduler_that_cannot_start_gives_its_reason
test_crash_loops = (
    failures.test_crash_looping_workers_fail_the_cluster_with_their_last_words
)
test_absent = failures.test_connecting_to_what_is_not_there_raises_and_never_goes_local


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stack(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    async with running_servers(folder, postgres.create_database(), OPTIONS) as servers:
        await eventually(lambda: all(map(servers.is_in_table, (servers.a, servers.b))))
        yield servers
        again = {job: n for job, n in servers.count_starts().items() if n > 1}
        assert not again


@pytest.fixture
async def gateway(stack: Servers) -> AsyncIterator[Gateway]:
    auth = BasicAuth("alice", PASSWORD)
    async with Gateway(stack.address, auth=auth, asynchronous=True) as session:
        yield session
        for report in await session.list_clusters():
            await session.stop_cluster(report.name)
