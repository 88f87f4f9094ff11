"""The kernel sweep through wgpu-py: sweep.json's cases, each variant checked, timed, checked again.

browser/src/sweep is its twin in the tab: the same definition, the same plans, the same record.
"""
