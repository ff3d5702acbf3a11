"""Patches of generated objects: read, judged and applied. Pure.

Others call:

* `patches.load_patches(text, source, settings)`, `patches.parse_patches(...)`:
  patches, or all that is wrong with them;
* `checking.check_patches(patches, samples)`: what they would do, at load;
* `pipeline.customise(member, patches, context) -> Customised | Refused`, for each
  member of a cluster before the first of them is written;
* `explaining.explain(member, customised)`: which source has set which field;
* `policy.parse_rules`, `policy.DEFAULT_RULES`: what users may set.

`strategic`, `merge` and `json_patch` apply one patch; `fields` knows the fields of
what we make, from the generated `field_table`.
"""
