"""Makes `worker` mean Onward's own, whatever the folder that one is in holds.

Imported for that alone, by the process that workers are forked from: it looks into the folder that
it was started in first of all, and a crash test is started in its user's.
"""

import sys

from onward.testing.processes import worker_script

sys.path.insert(0, str(worker_script().parent))
