"""Public data files, downloaded once and checked; the course itself ships none."""

from pathlib import Path

from labsupport import course

_GITHUB = "https://raw.githubusercontent.com"
# Pinned to commits: later versions of these repositories hold other runs under the same names.
_AZURE = f"{_GITHUB}/Azure/AzurePublicDataset/790921015d50dd6aae7f7e47f39ba0e235ad6b08/data"
_MOONCAKE = f"{_GITHUB}/kvcache-ai/Mooncake/a2a4b18ac537fd798d50e6e9f57031ce86419a37/FAST25-release/traces"
_BURSTGPT = f"{_GITHUB}/liao4s/BurstGPT_test/60886990e3ae50881a67be29e77d512f634e133d/example/logs"

# name: (address, sha256). Licences: Azure CC-BY 4.0, Mooncake Apache-2.0, BurstGPT_test MIT.
FILES = {
    "azure_2023/AzureLLMInferenceTrace_code.csv": (
        f"{_AZURE}/AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
    ),
    "azure_2023/AzureLLMInferenceTrace_conv.csv": (
        f"{_AZURE}/AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
    ),
    "mooncake_fast25/conversation_trace.jsonl": (
        f"{_MOONCAKE}/conversation_trace.jsonl",
        "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
    ),
    "burstgpt_vllm_sweep/detail_log_scale100_prompt500.json": (
        f"{_BURSTGPT}/detail_log/detail_log_scale100_prompt500.json",
        "79fc96e22c6daba1000caecb9a0df0c146582e3ba490996116cb52019bd6233f",
    ),
    "burstgpt_vllm_sweep/detail_log_scale500_prompt500.json": (
        f"{_BURSTGPT}/detail_log/detail_log_scale500_prompt500.json",
        "5af16bc171866513236f0ae7513d1a8a98194f5c4e4e0c7a9e71c9ce72e5e529",
    ),
    "burstgpt_vllm_sweep/detail_log_scale1000_prompt500.json": (
        f"{_BURSTGPT}/detail_log/detail_log_scale1000_prompt500.json",
        "39b6df7927f1590330babebb6ecfff62316e08f02848c4d50b881584410cb7b2",
    ),
    "burstgpt_vllm_sweep/vllm_log_scale100_prompt500.csv": (
        f"{_BURSTGPT}/vllm_log/vllm_log_scale100_prompt500.csv",
        "4e437d484af93a3c5243e94d7dc2c869e8c75cad805dc16db721c327544081b8",
    ),
    "burstgpt_vllm_sweep/vllm_log_scale500_prompt500.csv": (
        f"{_BURSTGPT}/vllm_log/vllm_log_scale500_prompt500.csv",
        "131a91748abf6d523b4cce11974615849e7ffc10140bf16af481fb5bf290f144",
    ),
    "burstgpt_vllm_sweep/vllm_log_scale1000_prompt500.csv": (
        f"{_BURSTGPT}/vllm_log/vllm_log_scale1000_prompt500.csv",
        "6dd36be4b9eda3c2b03311fcfb635713bfea2068f6c83d5307abb6a4b7825946",
    ),
}


def fetch(name: str) -> Path:
    """Path of the public data file `name`, downloaded unless QLAB_DATA or the cache already has it.

    A file is moved into the cache only when its checksum is right, so there are no half-written ones. Raises
    ValueError for an unknown name or a wrong checksum, ConnectionError when it cannot be downloaded.
    """
    if name not in FILES:
        raise ValueError(f"there is no public file {name!r}; choose one of {', '.join(FILES)}.")
    found = course.data(name)
    if found is not None and course.cache() not in found.parents:
        return found  # the user's own copy

    import pooch

    address, checksum = FILES[name]
    folder = course.cache() / Path(name).parent
    try:
        return Path(pooch.retrieve(address, f"sha256:{checksum}", fname=Path(name).name, path=folder))
    except OSError as problem:  # what requests raises is one, too
        raise ConnectionError(
            f"{name} could not be downloaded from {address} ({type(problem).__name__}); try again with a "
            f"network, or put the file at {folder / Path(name).name}."
        ) from problem
    except ValueError:
        raise ValueError(
            f"what {address} sent is not {name} (its sha256 differs) and was deleted; try again on another "
            f"network, or put the file into the folder named by QLAB_DATA."
        ) from None
