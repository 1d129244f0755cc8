"""Makes `worker` mean Onward's own in a checkout, whatever the folder that one is in holds.

Imported for that alone, by the process that workers are forked from: it looks into the folder that
it was started in first of all, and a crash test is started in its user's.
"""

import sys

from onward.own_code import ROOT, home

if not home():
    sys.path.insert(0, str(ROOT))
