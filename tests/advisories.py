"""`make check`: whether anything that is installed here has a known advisory.

Asks the OSV database through pip-audit. A database that cannot be reached is no clean bill: the
line then says NOT CHECKED, and the exit code is 0 all the same, since a machine without a way to it
could otherwise check nothing else.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

AUDIT = (
    Path(sys.executable).with_name("pip-audit"), "--vulnerability-service", "osv", "--format",
    "json", "--progress-spinner", "off",
)  # fmt: skip
UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "ServiceError")
"""In the last lines of a pip-audit that got no answer."""


def main(arguments: Sequence[str]) -> int:
    """Print one line, and one for each advisory; 1 where there is any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--osv-url", help="another OSV database, such as a mirror")
    parser.add_argument("--path", help="look at the packages of this folder instead")
    asked = parser.parse_args(arguments)
    here = ("--skip-editable", "--local")  # not ourselves
    command = [*AUDIT, *(here if asked.path is None else ("--path", asked.path))]
    if asked.osv_url is not None:
        command += ["--osv-url", asked.osv_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code, told = judged(done.stdout, done.stderr)
    sys.stdout.write(told + "\n")
    return code


def judged(report: str, complaint: str) -> tuple[int, str]:
    """Exit code and words for what pip-audit wrote on its standard output and error."""
    if not report.strip():
        last = complaint.strip().rpartition("\n")[2]
        if any(name in last for name in UNREACHABLE):
            return 0, f"advisories: NOT CHECKED, the database does not answer: {last}"
        return 1, f"advisories: pip-audit failed: {last}"
    packages = json.loads(report)["dependencies"]
    skipped = [f"{each['name']}: {each['skip_reason']}" for each in packages if "vulns" not in each]
    found = [
        f"{each['name']} {each['version']}: {vulnerability['id']}, mended in"
        f" {', '.join(vulnerability['fix_versions']) or 'no release yet'}"
        for each in packages
        for vulnerability in each.get("vulns", ())
    ]
    if skipped or found:
        return 1, "\n".join(["advisories:", *found, *skipped])
    return 0, f"advisories: none known for {len(packages)} packages"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
