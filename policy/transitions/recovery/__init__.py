"""Gangs that have lost members or room: members get other nodes, and a plan whose room is taken is given up."""
