"""What should be there: builders of manifests, and the one way to finish one.

Others call:

* `blueprint`: `Blueprint`, `Settings`, `PodSettings`, `RouteSettings`, `OwnerRef`;
* `members.make_member(blueprint, member, credentials=None) -> Manifest`, the one
  way to what is sent to a target namespace: build, customise, seal. A member is a
  `backends.kubernetes.names.Child` or `WorkerRef`;
* `members.find_refusal(blueprint) -> Problem | None`: whether that would be refused;
* `templates.build_template(settings, container)`: a configuration as the sparse
  template that a ``DaskCluster`` carries; `templates.lay` puts one over another;
* `labels.build_cluster_labels`, `labels.build_worker_selector`.
"""
