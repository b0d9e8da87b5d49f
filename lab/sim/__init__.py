"""Discrete-event simulation around the functions that decide in the live service: ``step`` and ``desired``.

``pods`` simulates pod by pod and ``fluid`` job by job; ``traces`` has what is submitted, ``papers`` what each paper
claims. Only this package may use random numbers, and only from a seed that is passed as an argument.
"""
