"""Discrete-event simulation around the function that decides in the live service, ``step``.

``fluid`` simulates job by job. ``pods`` is a world of pods, in which lab/virtual runs the live service. ``traces`` has
what is submitted. Random numbers come only from a seed that is passed as an argument.
"""
