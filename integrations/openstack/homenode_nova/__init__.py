"""OpenStack Nova's scheduler asks homenode what is left on each NUMA node.

fit    what a guest needs, and on how few and how near nodes a host has that (pure)
rooms  what each host's homenode answers: HTTP, kept for some seconds
scheduler  the weigher and the filter; the only module that needs Nova
"""
