"""Everything around the pure simulator of lab/sim that touches the outside: processes, files, tables, figures."""
