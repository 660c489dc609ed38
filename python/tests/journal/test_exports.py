"""Runs that were exported, read by the libraries of the formats: MCAP and its protobuf, and Parquet."""

import json
import math

import pyarrow.parquet
import pytest
from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory

from omniloop import SegmentedPlayer, TrainingLoop


@pytest.fixture
def recorded(run, daybook, tmp_path):
    key = tmp_path / "k.pem"
    daybook("key", "new", "-o", key)
    with TrainingLoop(run, signing_key=key.read_text()) as loop:
        loop.param("gain", 0.5, min=0.0, max=1.0)
        loop.seed("init", 7)
        for step in range(1, 101):
            loss = math.nan if step == 50 else 1 / step
            loop.tick(loss=loss, step=step, arm={"q": [step, -step]}, note="a" if step % 2 else "ü")
            if step == 60:
                loop.set("gain", 3.0, source="operator", correlation_id="c-1")
        loop.halt("done")
    daybook("attest", run, "--key", key)
    return run


def telemetry(path):
    return [record for record in SegmentedPlayer(path) if record.kind == "telemetry"]


def test_mcap_in_protobuf_is_read_with_its_own_schemas(recorded, daybook, tmp_path):
    output = tmp_path / "run.mcap"
    daybook("export", recorded, "--to", "mcap", "--encoding", "protobuf", "-o", output)
    with output.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        messages = list(reader.iter_decoded_messages())
        summary = reader.get_summary()
        (metadata,) = reader.iter_metadata()
        attachments = {attachment.name for attachment in reader.iter_attachments()}
    by_topic = {}
    for schema, channel, message, decoded in messages:
        assert (channel.message_encoding, schema.encoding) == ("protobuf", "protobuf")
        by_topic.setdefault(channel.topic, []).append((schema.name, message, decoded))
    states = by_topic["/telemetry"]
    wanted = telemetry(recorded)
    assert len(states) == len(wanted) == 100
    for (name, message, state), record in zip(states, wanted, strict=True):
        assert name == "omni.Telemetry"
        assert (state.tick, message.sequence) == (record.tick, record.tick)
        assert message.publish_time == record.wall_ns
        payload = record.json()
        assert state.step == payload["step"]
        assert (state.arm_q_0, state.arm_q_1) == (payload["step"], -payload["step"])
        assert state.note == payload["note"]
        assert math.isnan(state.loss) if record.tick == 50 else state.loss == payload["loss"]
    log = [(name, line.level, line.message, line.name, line.line) for name, _, line in by_topic["/log"]]
    assert {name for name, *_ in log} == {"foxglove.Log"}
    assert ("foxglove.Log", 3, "gain limited from 3.0 to 1.0", "guardrail", 0) in log
    assert log[0][2] == "start"
    assert log[-1][2] == "stop"
    stamp = by_topic["/log"][0][2].timestamp
    assert stamp.seconds * 1_000_000_000 + stamp.nanos == by_topic["/log"][0][1].log_time
    changes = [json.loads(record.payload) for _, _, record in by_topic["/mutation"]]
    assert [change["new"] for change in changes] == [0.5, 1.0]
    times = [message.log_time for _, _, message, _ in messages]
    assert times == sorted(times)
    assert summary.statistics.message_count == len(messages)
    assert (metadata.name, metadata.metadata["verdict"]) == ("omni.run", "intact")
    assert attachments == {"run.omni.checkpoint", "run.omni.leaves"}


def test_mcap_in_json_has_the_records_as_they_are(recorded, daybook, tmp_path):
    output = tmp_path / "run.mcap"
    daybook("export", recorded, "--to", "mcap", "-o", output)
    with output.open("rb") as file:
        messages = list(make_reader(file, validate_crcs=True).iter_messages(topics=["/telemetry"]))
    found = [json.loads(message.data) for _, _, message in messages]
    wanted = [(record.tick, record.json()) for record in telemetry(recorded)]
    assert [message["tick"] for message in found] == [tick for tick, _ in wanted]
    assert found[0]["payload"] == wanted[0][1]
    assert found[49]["payload"]["loss"] is None


def test_parquet_has_a_typed_column_for_every_variable(recorded, daybook, tmp_path):
    output = tmp_path / "run.parquet"
    daybook("export", recorded, "--to", "parquet", "-o", output)
    table = pyarrow.parquet.read_table(output)
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        **dict.fromkeys(("tick", "mono_ns", "wall_ns"), "uint64"),
        "loss": "double",
        "step": "int64",
        "arm.q.0": "int64",
        "arm.q.1": "int64",
        "note": "string",
        "payload_hex": "string",
    }
    rows = table.to_pydict()
    wanted = telemetry(recorded)
    assert rows["tick"] == [record.tick for record in wanted]
    assert rows["wall_ns"] == [record.wall_ns for record in wanted]
    assert rows["arm.q.1"] == [-record.json()["step"] for record in wanted]
    assert math.isnan(rows["loss"][49])
    assert rows["loss"][50] == wanted[50].json()["loss"]
    assert set(rows["payload_hex"]) == {None}
