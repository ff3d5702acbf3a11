"""What should be there: builders of manifests, and the one way to finish one.

Others call:

* `blueprint`: `Blueprint`, `Settings`, `PodSettings`, `RouteSettings`, `OwnerRef`;
* `members.make_member(blueprint, child) -> Manifest` and
  `members.make_worker(blueprint, ordinal) -> Manifest`: build, customise, seal;
* `members.make_credentials(blueprint, credentials) -> Manifest`;
* `members.find_refusal(blueprint) -> Problem | None`: the same, as a question.

Nothing else may make what is sent to a target namespace.
"""
