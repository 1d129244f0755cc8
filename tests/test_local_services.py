from temporalio.client import Client

from onward.local_services import RedisServer, TemporalServer


async def test_a(temporal: TemporalServer, redis_local: RedisServer) -> None:
    print(temporal.address, temporal.pid, redis_local.url, redis_local.pid)
    await Client.connect(temporal.address)
    await temporal.restart()
    await redis_local.restart()
    await Client.connect(temporal.address)
