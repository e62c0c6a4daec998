from . import config as config
from .attacks.disclosure import disclosure as disclosure
from .callbacks import Callback as Callback
from .callbacks import Stop as Stop
from .config import default_config as default_config
from .core import register as register
from .core.method import Method as Method
from .errors import UserError as UserError
from .experiment.check import check as check
from .lab.analysis.cost import cost as cost
from .lab.analysis.data_report import inspect as inspect
from .lab.compare import compare as compare
from .lab.figures.draw import plot as plot
from .lab.saved_runs import load as load
from .lab.sweeps import sweep as sweep
from .methods import METHODS as METHODS
from .round.simulator import Federation as Federation
from .training.debug import debug as debug
from .training.runner import run as run

__version__: str
