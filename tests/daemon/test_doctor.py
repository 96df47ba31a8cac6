"""`compose doctor` beside a real dockerd."""

from __future__ import annotations

from pathlib import Path

from composer.oci.dockerhost import Endpoint
from tests.support.commands import compose, run, tool


def test_what_a_daemon_says(endpoint: Endpoint, tmp_path: Path) -> None:
    done = compose("doctor", "--json", cwd=tmp_path, env={"DOCKER_HOST": endpoint.host})
    found = {one["name"]: one for one in done.json["findings"]}
    asked = [tool("docker"), "-H", endpoint.host, "version", "--format"]
    said = run([*asked, "{{.Server.Version}}, {{.Server.Os}}/{{.Server.Arch}}"], cwd=tmp_path).out
    assert found["docker daemon"]["level"] == "ok"
    assert found["docker daemon"]["found"].startswith(said.strip() + ", API ")
    driver = run(
        [
            tool("docker"),
            "-H",
            endpoint.host,
            "info",
            "--format",
            "{{.Driver}}, {{.DockerRootDir}}",
        ],
        cwd=tmp_path,
    ).out
    assert found["docker images"]["found"].endswith(driver.strip())
