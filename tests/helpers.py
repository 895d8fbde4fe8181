"""What several tests share."""

from beartype import BeartypeConf, beartype

# Whole numbers are real numbers, as every Python user expects.
typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))
