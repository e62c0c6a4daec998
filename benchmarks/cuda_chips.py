"""Descriptions of GPUs for XLA's compiler (its `GpuTargetConfigProto`)."""

COMMON = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 49152,
    "threads_per_core_limit": 2048,
    "block_dim_limit_x": 2147483647,
    "block_dim_limit_y": 65535,
    "block_dim_limit_z": 65535,
    "registers_per_core_limit": 65536,
    "registers_per_block_limit": 65536,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
}
H100 = {
    "shared_memory_per_core": 233472,
    "core_count": 132,
    "fpus_per_core": 128,
    "memory_bandwidth": 3352320000000,
    "l2_cache_size": 52428800,
    "clock_rate_ghz": 1.98,
    "device_memory_size": 84942979072,
    "shared_memory_per_block_optin": 232448,
}
A100 = {
    "shared_memory_per_core": 167936,
    "core_count": 108,
    "fpus_per_core": 64,
    "memory_bandwidth": 2039040000000,
    "l2_cache_size": 41943040,
    "clock_rate_ghz": 1.41,
    "device_memory_size": 85100068864,
    "shared_memory_per_block_optin": 166912,
}


def described(name: str, capability: str, numbers: dict) -> str:
    """Returns the description of a GPU as text, with cuDNN 9.10 and CUDA 12.9."""
    lines = [f"{key}: {value}" for key, value in {**COMMON, **numbers}.items()]
    return f"""
gpu_device_info {{
  {" ".join(lines)}
  cuda_compute_capability {{ {capability} }}
  dnn_version: "9.10.2"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 2 }}
runtime_version {{ major: 12 minor: 9 patch: 0 }}
device_description_str: "{name}"
"""


CHIPS = {
    "h100": described(
        "NVIDIA H100 80GB HBM3",
        "major: 9 feature_extension: ACCELERATED_FEATURES",
        H100,
    ),
    "a100": described("NVIDIA A100-SXM4-80GB", "major: 8", A100),
}
