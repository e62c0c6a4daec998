"""Audit of the epsilon that runs under differential privacy claim for a round."""

from collections.abc import Sequence

from jaxproto.attacks import privacy_audit
from jaxproto.cli import table_output
from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError
from jaxproto.summary import table_formats


def main(prog: str, arguments: Sequence[str]) -> bool:
    """Prints claimed and audited epsilon; exit code 1 if a claim is refuted."""
    default = privacy_audit.AuditRequest()
    parser = Parser(prog=prog, description=__doc__)
    add = parser.add_argument
    add("workdirs", nargs="+", metavar="WORKDIR", help="of runs")
    add("--trials", type=int, default=default.trials, help="keys per data set")
    add("--confidence", type=float, default=default.confidence)
    add("--client", type=int, default=0, help="id of the client")
    add("--seed", type=int, default=0)
    add("--data_dir", default="", help="folder of a moved data set")
    add("--format", choices=table_formats.FORMATS, default="text")
    args = parser.parse_args(arguments)
    if args.trials < 2 or not 0 < args.confidence < 1:
        raise UserError(
            f"trials is {args.trials} and confidence {args.confidence:g}; give at "
            "least 2 trials, and a confidence above 0 and below 1."
        )
    fields = {name: getattr(args, name) for name in default._fields}
    request = privacy_audit.AuditRequest(**fields)
    audits = [privacy_audit.audit(workdir, request) for workdir in args.workdirs]
    view = privacy_audit.view(audits, request)
    table_output.print_table(view, args.format)
    return any(audit.audited > audit.claimed for audit in audits)
