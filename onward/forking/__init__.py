"""A fork: a new run that goes on from a copy of another run's conversation.

`cut` says where the conversation is cut, `fates` what became of each call, `aftermath` what the
other run did after that. `command` is what a person types; the worker's activity does the copying.
"""
