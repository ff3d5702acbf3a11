"""What is there, as slim values: views of objects, our own writes, the worker set.

Others call:

* `pods.parse_pod(raw) -> PodView`: a pod, judged by its Dask container with a
  `verdicts.PodState` and, if it does not run, a `verdicts.Cause`;
* `services.parse_service(raw) -> ServiceView`: an anchor;
* `overlay.Overlay`: our own writes, laid over an informer's cache;
* `worker_set.WorkerSet`, `parse_worker_set`, `format_worker_set`.
"""
