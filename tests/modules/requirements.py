"""Print what the installed vLLM requires, without the packages that only a GPU uses."""

from importlib.metadata import requires

from packaging.requirements import Requirement

GPU_ONLY = {
    "apache-tvm-ffi",
    "fastsafetensors",
    "humming-kernels",
    "numba",
    "nvtx",
    "opencv-python-headless",
    "pynvvideocodec",
    "quack-kernels",
    "tilelang",
    "tokenspeed-mla",
    "torch",
    "torchaudio",
    "torchcodec",
    "torchvision",
}

for line in requires("vllm") or ():
    requirement = Requirement(line)
    name = requirement.name.lower()
    if name in GPU_ONLY or name.startswith(("nvidia-", "flashinfer-")):
        continue
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        print(requirement)
