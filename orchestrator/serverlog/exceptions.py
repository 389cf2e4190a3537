"""What the exceptions of a dying or failing server mean, and which messages announce an end.

The first rule that matches wins. Paths are below `vllm/`, of 0.29.0 unless a version stands there.
"""

from orchestrator.serverlog.rules import ExceptionRule, IntroductionRule

INTRODUCTION_RULES = (
    IntroductionRule(
        source="v1/engine/core.py, EngineCoreProc.run_engine_core",
        starts="EngineCore failed to start.",
    ),
    IntroductionRule(
        source="v1/engine/core.py, EngineCoreProc.run_engine_core",
        starts="EngineCore encountered a fatal error.",
    ),
    IntroductionRule(
        source="v1/executor/multiproc_executor.py, WorkerProc.worker_main",
        starts="WorkerProc failed to start.",
    ),
)

_KV_TOO_SMALL = "The memory left for the KV cache does not hold one request of full length."
_OUT_OF_MEMORY = "Memory does not suffice for the model, its work space or its cache."
_NO_MODEL = "Files of the model are missing: path, name, revision or offline cache."

EXCEPTION_RULES = (
    ExceptionRule(
        source="v1/core/kv_cache_utils.py, _check_enough_kv_cache_memory; older: models's",
        starts="ValueError: To serve at least one request with the model",
        rest="'s",
        name="kv_cache_too_small",
        summary=_KV_TOO_SMALL,
    ),
    ExceptionRule(
        source="v1/core/kv_cache_utils.py, _check_enough_kv_cache_memory",
        starts="ValueError: No available memory for the cache blocks.",
        name="kv_cache_too_small",
        summary=_KV_TOO_SMALL,
    ),
    ExceptionRule(
        source="torch/csrc/cuda: c10::OutOfMemoryError; torch.cuda. before PyTorch 2.5",
        starts="torch.",
        rest=r"(?:cuda\.)?OutOfMemoryError: ",
        name="out_of_memory",
        summary=_OUT_OF_MEMORY,
    ),
    ExceptionRule(
        source="v1/worker/utils.py, request_memory",
        starts="ValueError: Free memory on device ",
        rest=r".*is less than desired GPU memory utilization",
        name="out_of_memory",
        summary=_OUT_OF_MEMORY,
    ),
    ExceptionRule(
        source="v1/worker/cpu_worker.py, CPUWorker.__init__, determine_available_memory",
        starts="ValueError: Available memory on node ",
        name="out_of_memory",
        summary=_OUT_OF_MEMORY,
    ),
    ExceptionRule(
        source="v1/worker/gpu_model_runner.py, GPUModelRunner._dummy_sampler_run",
        starts="RuntimeError: CUDA out of memory occurred when warming up",
        name="out_of_memory",
        summary=_OUT_OF_MEMORY,
    ),
    ExceptionRule(
        source="Linux errno 98; entrypoints/launchers/launcher.py, create_server_socket",
        starts="OSError: [Errno 98] ",
        name="port_in_use",
        summary="Another process listens on the server's port.",
    ),
    ExceptionRule(
        source="huggingface_hub/utils/_validators.py, validate_repo_id",
        starts="huggingface_hub.errors.HFValidationError: ",
        name="missing_model",
        summary=_NO_MODEL,
    ),
    ExceptionRule(
        source="huggingface_hub/_snapshot_download.py, snapshot_download",
        starts="huggingface_hub.errors.LocalEntryNotFoundError: ",
        name="missing_model",
        summary=_NO_MODEL,
    ),
    ExceptionRule(
        source="model_executor/model_loader/default_loader.py, DefaultModelLoader._prepare_weights",
        starts="RuntimeError: Cannot find any model weights with ",
        name="missing_model",
        summary=_NO_MODEL,
    ),
    ExceptionRule(
        source="transformers_utils/config.py, get_config",
        starts="pydantic_core._pydantic_core.ValidationError: ",
        rest=".*Invalid repository ID or local directory specified",
        name="missing_model",
        summary=_NO_MODEL,
    ),
    ExceptionRule(
        source="Lib/importlib: ModuleNotFoundError",
        starts="ModuleNotFoundError: No module named ",
        name="missing_module",
        summary="A Python module that the server needs is not installed.",
    ),
    ExceptionRule(
        source="config/: pydantic dataclasses",
        starts="pydantic_core._pydantic_core.ValidationError: ",
        name="bad_argument",
        summary="The server does not accept a value, or a combination, of its arguments.",
    ),
    ExceptionRule(
        source="torch/csrc/cuda: cudaErrorIllegalAddress; RuntimeError before PyTorch 2.8",
        starts="",
        rest=r"(?:torch\.AcceleratorError|RuntimeError): CUDA error: an illegal memory access",
        name="illegal_memory_access",
        summary="A kernel touched memory that is not its own.",
    ),
    ExceptionRule(
        source="the article's launch facts: splitting_ops of another version",
        starts="RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture",
        name="graph_capture_failed",
        summary="The CUDA graphs cannot be captured: compilation flags of another version.",
    ),
    ExceptionRule(
        source="distributed/device_communicators/pynccl_wrapper.py, NCCLLibrary.NCCL_CHECK",
        starts="RuntimeError: NCCL error: ",
        name="nccl_error",
        summary="The devices cannot talk to each other; NCCL_DEBUG=INFO tells more.",
    ),
    ExceptionRule(
        source="flashinfer #2394",
        starts="RuntimeError: pidfd_getfd(",
        name="ptrace_not_permitted",
        summary="The container lacks the capability SYS_PTRACE.",
    ),
    ExceptionRule(
        source="v1/executor/multiproc_executor.py, MultiprocExecutor.collective_rpc",
        starts="TimeoutError: RPC call to ",
        rest=r"\w+ timed out",
        name="worker_timeout",
        summary="A worker did not answer the engine in time.",
    ),
    ExceptionRule(
        source="torch/_inductor/exc.py, InvalidCxxCompiler",
        starts="torch._inductor.exc.InductorError: InvalidCxxCompiler",
        name="missing_compiler",
        summary="A C++ compiler is needed and none works.",
    ),
    ExceptionRule(
        source="Lib/signal.py, default_int_handler; v1/engine/core.py, signal_handler",
        starts="KeyboardInterrupt",
        name="interrupted",
        summary="A process of the server was told to stop while it started.",
    ),
    ExceptionRule(
        source="v1/engine/exceptions.py, EngineDeadError",
        starts="vllm.v1.engine.exceptions.EngineDeadError: ",
        name="engine_dead",
        summary="The engine died; the API server refuses every request and ends.",
        severity_when_logged="fatal",
        defers=True,
    ),
    ExceptionRule(
        source="v1/executor/multiproc_executor.py, MultiprocExecutor.collective_rpc",
        starts="RuntimeError: Worker failed with error ",
        defers=True,
    ),
    ExceptionRule(
        source="v1/executor/multiproc_executor.py, WorkerProc.wait_for_ready",
        starts="Exception: WorkerProc initialization failed due to an exception in a background",
        defers=True,
    ),
    ExceptionRule(
        source="v1/engine/utils.py, wait_for_engine_startup",
        starts="RuntimeError: Engine core initialization failed.",
        defers=True,
    ),
)
