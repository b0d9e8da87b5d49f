"""Discrete-event simulation around the very code that decides live: ``step`` and ``desired``.

``pods`` goes pod by pod, ``fluid`` job by job; ``traces`` says what is submitted, ``papers`` what each paper claims.
Chance is allowed in this room only, and only with the seed as an argument.
"""
