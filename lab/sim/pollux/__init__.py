"""The world of the Pollux artifact (OSDI 2021): training as measured, decided in rounds by the live ``step``."""
