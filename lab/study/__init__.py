"""Does all input and output around the pure simulator of lab/sim: processes, files, tables and figures."""
