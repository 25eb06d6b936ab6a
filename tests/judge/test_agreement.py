"""Whether hosts agree on the network and on settings."""

from __future__ import annotations

from bench.judge.verdict import judge
from bench.records import Report


def serious(report: Report) -> list[str]:
    return [f.code for f in report.findings if f.severity in ("degraded", "broken")]


def test_hosts_that_meet_on_networks_without_a_common_one_are_told(make_scene):
    scene = make_scene({"mgmt": 100, "data": 500}).chooses("data").chooses("mgmt", hosts=["host3"])
    scene.measured("mgmt", 0.012).measured("data", 0.0597).outcome("(default)", "hung")
    scene.session("(default)", "hung", ranks=scene.ended(("hung", "init")))
    report = judge(scene.report())
    assert serious(report) == ["interface-differs"] and report.verdict == "misconfigured"
    finding = report.findings[0]
    assert finding.where.hosts == ("host3",) and finding.severity == "broken"
    assert "on data (host1, host2 and host4); on mgmt (host3)" in finding.summary
    assert finding.remedy == "export NCCL_SOCKET_IFNAME='=data0'"
    assert any("(default) hung in init" in e.text for e in finding.evidence)


def test_other_names_of_one_network_are_agreement(make_scene):
    names = {"data": ["ens1f0", "enp65s0", "eno2", "eth5"]}
    scene = make_scene({"data": 500}, names=names).chooses("data").all_measured()
    assert judge(scene.report()).verdict == "healthy"


def test_a_default_that_works_over_routed_networks_is_at_most_a_warning(make_scene):
    scene = make_scene({"a": 500, "b": 500}).chooses("a").chooses("b", hosts=["host3"])
    scene.all_measured()
    report = judge(scene.report())
    assert serious(report) == []
    assert [(f.code, f.severity) for f in report.findings] == [("interface-differs", "warning")]


def test_a_setting_on_some_hosts_only_is_told_with_values_and_hosts(healthy):
    for host in ("host1", "host2", "host4"):
        healthy.facts(host, environment={"NCCL_IB_DISABLE": "1"})
    report = judge(healthy.report())
    assert [(f.code, f.severity) for f in report.findings] == [("setting-not-exported", "warning")]
    finding = report.findings[0]
    assert finding.where.hosts == ("host3",)
    assert "NCCL_IB_DISABLE: '1' on host1, host2 and host4; unset on host3" in (
        finding.evidence[0].text
    )


def test_settings_that_rightly_differ_are_not_told(healthy):
    for number, host in enumerate(healthy.names):
        healthy.facts(
            host,
            environment={
                "NCCL_HOSTID": str(number), "NCCL_DEBUG_FILE": f"/log/{host}", "SLURM_NODEID": "1"
            },
        )  # fmt: skip
    assert judge(healthy.report()).findings == ()


def test_an_interface_set_on_some_hosts_only_is_told_other_names_are_not(healthy):
    healthy.sets("=data0", hosts=["host1", "host2"])
    assert [f.code for f in judge(healthy.report()).findings] == ["setting-not-exported"]
    healthy.sets("=data0", hosts=["host3"]).sets("=data", hosts=["host4"])
    assert judge(healthy.report()).findings == ()
