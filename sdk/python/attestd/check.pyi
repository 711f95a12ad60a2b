# The module check is a program, and no part of the package's interface.
