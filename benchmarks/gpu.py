"""Fits, products and predictions on a GPU, all in one call; --quick is a smoke test for any device.

Ceilings:    float32 and TF32 matrix products, copies and exponentials, as torch does them.
Products:    K v and K^T u by the fused kernel: error against float64, seconds, values a second;
             other tiles and precisions beside it.
Hessian:     K M and F^T F of the preconditioner over the ceiling of the same precision.
Equality:    the objective and the labels of the GPU's fit against the CPU's.
Fits:        10.5 million rows of 28 features (the generator of data.py, on the GPU), C = 10,
             tol = 1e-3, landmarks included: seconds by stage, passes, accuracy, memory.
Prediction:  10 million rows that are on the GPU.
CPU:         the same fit by NumPy on all cores, on a part of the rows.

Rows are on the GPU before a clock starts, and a small fit has come before: compiling the fused
kernel and starting CUDA's libraries takes seconds, once. Each part stands alone, and its targets
are judged where it ends; of one that fails the error and its last calls are printed. Profiles and
whole tracebacks go to the file of --details.
"""

import cProfile
import io
import pstats
import sys
import traceback
from time import perf_counter

import numpy as np
import torch

import data
from lasn import LASNClassifier
from lasn.arrays import float32_products
from lasn.torch_kernels import has_triton, kernel_product, plain_product
from measure import machine, number, parser, record_table, seconds, verdicts, whole

N_FEATURES = 28
TARGETS = {1024: 0.8, 4096: 5.0, 8192: 15.0}


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--device", default="cuda")
    command.add_argument("--rows", type=int, default=10_500_000)
    command.add_argument("--landmarks", type=int, nargs="+", default=list(TARGETS))
    command.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    command.add_argument("--sweep", action="store_true", help="also other tiles of the kernel")
    command.add_argument("--details", help="file for profiles of fits and for tracebacks")
    command.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    options = command.parse_args()
    if options.quick:
        options.rows, options.landmarks = 40_000, [64, 128]
    options.scale = 0.01 if options.quick else 1.0
    print(machine())
    print(f"torch {torch.__version__}, {describe(options.device)}")
    options.checks, options.ceilings, n_missed = [], {}, 0
    options.torch_device = torch.device("cpu" if options.device == "torch" else options.device)
    for name in options.only:
        began = perf_counter()
        try:
            PARTS[name](options)
        except Exception:
            say_error(options, name)
            n_missed += 1
        empty(options)
        print(f"({name}: {perf_counter() - began:.1f} s)", flush=True)
        if options.checks and not options.quick:
            n_missed += verdicts(options.checks)
        options.checks = []
    return min(n_missed, 1)


def say_error(options, what: str) -> None:
    """The error and the calls next to it; the whole traceback goes to the details."""
    print(f"\n{what} FAILED\n{traceback.format_exc(limit=-4)[-1500:]}", flush=True)
    add_details(options, f"{what}\n{traceback.format_exc()}")


def add_details(options, text: str) -> None:
    if options.details:
        with open(options.details, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def describe(device: str) -> str:
    if not device.startswith("cuda"):
        return device
    name, memory = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory
    return f"{name}, {memory / 2**30:.0f} GiB, triton {'yes' if has_triton() else 'no'}"


def empty(options) -> None:
    if options.torch_device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def wait(options) -> None:
    if options.torch_device.type == "cuda":
        torch.cuda.synchronize()


def timed(options, work, repeat: int = 5):
    """The median of the seconds, after one run to warm up."""
    took = []
    for _ in range(repeat + 1):
        wait(options)
        began = perf_counter()
        work()
        wait(options)
        took.append(perf_counter() - began)
    return float(np.median(took[1:]))


def generated(n_rows: int, device: torch.device, part: int = 0):
    """X, y of the problem of ``data.generated``, drawn by the device: other rows, same laws."""
    world = np.random.default_rng([0, N_FEATURES])
    rotation = np.linalg.qr(world.standard_normal((N_FEATURES, N_FEATURES)))[0]
    rotation[4:] *= 0.2
    frequencies = 0.5 * world.standard_normal((4, 8))
    phases = world.uniform(0.0, 2.0 * np.pi, 8)
    rotation, frequencies, phases = (
        torch.from_numpy(a.astype(np.float32)).to(device) for a in (rotation, frequencies, phases)
    )
    random = torch.Generator(device=device).manual_seed(part)
    hidden = torch.randn((n_rows, N_FEATURES), generator=random, device=device)
    y = (hidden[:, :4] @ frequencies + phases).sin().sum(dim=1) > 0.0
    y ^= torch.rand(n_rows, generator=random, device=device) < 0.05
    return hidden @ rotation, y.to(torch.int64)


def measure_ceilings(options) -> None:
    size = int(16384 * options.scale) + 128
    device = options.torch_device
    A = torch.randn((size, size), device=device)
    rates = {}
    for name, precision in (("float32", "highest"), ("tf32", "high")):
        with float32_products(precision):
            rates[name] = 2e-12 * size**3 / timed(options, lambda: A @ A)
    flat = torch.rand(int(1e9 * options.scale), device=device)
    other = torch.empty_like(flat)
    rates["copy"] = 8e-12 * len(flat) / timed(options, lambda: other.copy_(flat))
    rates["exp"] = 1e-12 * len(flat) / timed(options, lambda: torch.exp2(flat, out=other))
    options.ceilings = rates
    print(
        f"\nceilings: float32 {rates['float32']:.1f}, tf32 {rates['tf32']:.1f} TFLOP/s; copies "
        f"{rates['copy']:.2f} TB/s; torch's exp2 {rates['exp']:.2f} T/s"
    )


def prepared(options, n_rows: int, k: int):
    """Prepared rows and landmarks, as ``torch_kernels`` makes them."""
    from lasn.kernels import Kernel

    X, _ = generated(n_rows, options.torch_device)
    columns = Kernel("rbf", gamma=1.0 / 5.0).against(X[:k].clone(), np.float32)
    return columns.prepare(X), columns.prepared


def measure_products(options) -> None:
    records = []
    n_rows = int(4e6 * options.scale)
    k = 1024 if not options.quick else 64
    A, B = prepared(options, n_rows, k)
    few = A[: max(1000, n_rows // 200)]
    K = (few.double() @ B.double().T).clamp(max=0.0).exp2()

    def record(name, product, c):
        V = torch.randn((k, c), device=A.device)
        U = torch.randn((n_rows, c), device=A.device)
        ahead = K @ V.double()
        back = K.T @ U[: len(few)].double()
        error = ((product(few, B, V) - ahead).norm() / ahead.norm()).item()
        turned = ((product(B, few, U[: len(few)]) - back).norm() / back.norm()).item()
        forward = timed(options, lambda: product(A, B, V))
        backward = timed(options, lambda: product(B, A, U))
        records.append(
            {
                "product": name,
                "c": c,
                "error": max(error, turned),
                "K v ms": 1e3 * forward,
                "K^T u ms": 1e3 * backward,
                "rate": 2e-12 * n_rows * k / (forward + backward),
            }
        )

    for c in (1, 10):
        record("plain torch", plain_product, c)
        record("chosen", kernel_product, c)
    if options.torch_device.type == "cuda" and has_triton():
        for name, variant in variants(options.sweep):
            try:
                record(name, variant, 1)
            except Exception as error:  # a tile that does not fit
                print(f"{name}: {type(error).__name__}: {str(error)[:100]}")
                wait(options)
    columns = {"product": "product", "c": "c", "error": ("error", lambda e: f"{e:.1e}")}
    columns |= {name: (name, number) for name in ("K v ms", "K^T u ms")}
    columns |= {"values T/s": ("rate", number)}
    record_table(f"Products, {n_rows} rows, k = {k}", records, columns)


def variants(sweep: bool):
    """Other precisions of the fused kernel, and other tiles."""
    from lasn.triton_rbf import TILES, Tile, _launch

    tiles = [TILES[0]]
    if sweep:
        tiles += [Tile(128, 64, 8, 3), Tile(64, 64, 4, 2), Tile(64, 128, 4, 3), Tile(128, 32, 4, 3)]
    for tile in tiles:
        for precision in ("tf32x3", "tf32") if tile == tiles[0] else ("tf32x3",):

            def product(A, B, V, tile=tile, precision=precision):
                return _launch(A, B, V, precision, tile)

            yield f"fused {tuple(tile)} {precision}", product


def measure_hessian(options) -> None:
    """The products of one preconditioner, as ``block_tasks.assemble`` makes them."""
    from lasn.torch_blocks import TorchBlocks

    k = 4096 if not options.quick else 128
    n_rows = 8 * k
    device = options.torch_device
    X, _ = generated(n_rows, device)
    block = TorchBlocks(X, None, np.float32, 1 << 30, 1, device).blocks[0]
    K, M = torch.rand((n_rows, k), device=device), torch.randn((k, k), device=device)
    flops = 2e-12 * n_rows * k * k
    float32 = timed(options, lambda: K @ M)
    exact, steering = (
        timed(options, lambda steers=steers: block.gram(K, steers)) for steers in (False, True)
    )
    # What steers is made of two TF32 products on a GPU.
    on_gpu = device.type == "cuda"
    rates = {
        "float32 K M": ("float32", flops / float32),
        "float32 F^T F": ("float32", flops / exact),
        "split F^T F": ("tf32" if on_gpu else "float32", (1 + on_gpu) * flops / steering),
    }
    print(f"\nHessian products, {n_rows} x {k}:")
    for name, (precision, rate) in rates.items():
        part = rate / options.ceilings.get(precision, float("nan"))
        print(f"  {name}: {rate:.1f} TFLOP/s in {precision}, {100 * part:.0f} % of the ceiling")
        options.checks.append((f"{name}, part of the ceiling", part, ">=", 0.6))


def fit(options, X, y, k: int, **settings):
    """A fitted classifier with its seconds and those of its stages."""
    model = LASNClassifier(
        k, random_state=0, **{"device": options.device, "gamma": "variance"} | settings
    )
    wait(options)
    began = perf_counter()
    model.fit(X, y)
    wait(options)
    return model, perf_counter() - began, model.stage_seconds_


def objective(model, X, y) -> float:
    """1/2 |w|^2 + 1/2 b^2 + C sum max(0, 1 - y f)^2 in float64, by the CPU."""
    reference = LASNClassifier().set_params(**model.get_params()).set_params(device="cpu")
    for name, value in vars(model).items():
        if name.endswith("_") or name.startswith("_"):
            setattr(reference, name, value)
    reference._dtype = np.dtype(np.float64)
    scores = reference.decision_function(np.asarray(X, dtype=np.float64))
    slack = np.maximum(0.0, 1.0 - (2 * np.asarray(y) - 1) * scores)
    norm = float(np.sum(model.coef_**2) + np.sum(model.intercept_**2))
    return 0.5 * norm + model.C * float(np.sum(slack**2))


def check_equality(options) -> None:
    n_rows = int(2e5 * options.scale)
    k = 512 if not options.quick else 64
    X, y, _ = data.generated(n_rows)
    X_test, _, _ = data.generated(20_000, part=1)
    landmarks = LASNClassifier(k, random_state=0).fit(X[:20_000], y[:20_000]).landmarks_
    for tol in (1e-3, 1e-5):
        settings = {"landmarks": landmarks, "dtype": "float32", "tol": tol}
        here, cpu_seconds, _ = fit(options, X, y, k, **settings, device="cpu")
        there, gpu_seconds, _ = fit(options, X, y, k, **settings)
        values = [objective(model, X, y) for model in (here, there)]
        off = abs(values[1] / values[0] - 1.0)
        agree = float(np.mean(here.predict(X_test) == there.predict(X_test)))
        print(
            f"\nequality, {n_rows} rows, k = {k}, tol {tol:g}: objective {values[0]:.6g} by CPU in "
            f"{cpu_seconds:.2f} s, {values[1]:.6g} by {options.device} in {gpu_seconds:.2f} s, "
            f"{off:.1e} apart; labels agree for {100 * agree:.2f} %; {there.history_[-1]}"
        )
    options.checks.append(("objective against the CPU's", off, "<=", 1e-4))
    options.checks.append(("labels as the CPU's", agree, ">=", 0.999))


def measure_fits(options) -> None:
    device = options.torch_device
    X, y = generated(options.rows, device)
    X_test, y_test = generated(int(1e6 * options.scale), device, part=1)
    fit(options, X[: options.rows // 50], y[: options.rows // 50], 256)
    records = []
    for k in options.landmarks:
        empty(options)
        try:
            model, took, stages = fit(options, X, y, k)
        except Exception:
            say_error(options, f"k = {k}")
            options.checks.append((f"seconds of a fit, k = {k}", float("inf"), "<=", TARGETS[k]))
            continue
        peak = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0
        history = model.history_
        whole_rows = [r for r in history if r["rows"] == options.rows]
        records.append(
            {
                "k": k,
                "fit": took,
                **stages,
                "other": took - sum(stages.values()),
                "accuracy": 100.0 * (model.predict(X_test) == y_test).double().mean().item(),
                "iterations": len(history),
                "products": sum(r["cg_steps"] for r in history),
                "passes": len(history) + len({r["rows"] for r in history}),
                "confirmed": len(whole_rows),
                "gradient": history[-1]["relative_gradient"],
                "peak": peak,
            }
        )
        say_history(k, history)
        if k in TARGETS and not options.quick:
            options.checks.append((f"seconds of a fit, k = {k}", took, "<=", TARGETS[k]))
    columns = {"k": "k", "fit s": ("fit", seconds)}
    columns |= {f"{name} s": (name, seconds) for name in ("landmarks", "map", "solve", "other")}
    columns |= {"accuracy %": ("accuracy", number), "iterations": "iterations"}
    columns |= {"CG products": "products", "other passes": "passes", "over all rows": "confirmed"}
    columns |= {"relative gradient": ("gradient", lambda g: f"{g:.1e}"), "peak GB": ("peak", whole)}
    record_table(f"Fits, {options.rows} rows", records, columns)
    if options.details:
        for k in options.landmarks:
            profile_fit(options, X, y, k)


def profile_fit(options, X, y, k: int) -> None:
    """Where the time of one more fit goes, to the details."""
    profile, text = cProfile.Profile(), io.StringIO()
    try:
        empty(options)
        profile.enable()
        _, took, _ = fit(options, X, y, k)
    except Exception:
        say_error(options, f"profile, k = {k}")
        return
    finally:
        profile.disable()
    stats = pstats.Stats(profile, stream=text)
    stats.sort_stats("tottime").print_stats(25)
    stats.sort_stats("cumulative").print_stats(r"lasn", 45)
    print(f"k = {k} again, profiled: {took:.3f} s", flush=True)
    add_details(options, f"k = {k}: {took:.3f} s\n{text.getvalue()}")


def say_history(k: int, history: list[dict]) -> None:
    print(f"\nk = {k}: rows, active, CG steps, step, relative gradient, value, seconds")
    for r in history:
        print(
            f"  {r['rows']:>9} {r['active_rows']:>9} {r['cg_steps']:>3} {r['step_length']:.2f} "
            f"{r['relative_gradient']:.1e} {r['value']:.6g} {r['seconds']:.3f}"
        )


def measure_prediction(options) -> None:
    n_rows = int(1e7 * options.scale)
    k = 1024 if not options.quick else 64
    X, y = generated(n_rows, options.torch_device)
    model, _, _ = fit(options, X[: n_rows // 20], y[: n_rows // 20], k)
    took = timed(options, lambda: model.predict(X))
    accuracy = 100.0 * (model.predict(X) == y).double().mean().item()
    print(f"\nprediction of {n_rows} rows, k = {k}: {took:.3f} s, accuracy {accuracy:.2f} %")
    options.checks.append(("seconds of prediction", took, "<=", 0.2))


def compare_with_cpu(options) -> None:
    n_rows = int(1e6 * options.scale)
    k = 1024 if not options.quick else 64
    X, y = generated(n_rows, options.torch_device)
    _, gpu_seconds, gpu_stages = fit(options, X, y, k)
    _, cpu_seconds, cpu_stages = fit(options, X.cpu().numpy(), y.cpu().numpy(), k, device="cpu")
    print(
        f"\nfit of {n_rows} rows, k = {k}: CPU {cpu_seconds:.2f} s, {options.device} "
        f"{gpu_seconds:.2f} s, {cpu_seconds / gpu_seconds:.1f} times"
    )
    for name, stages in (("CPU", cpu_stages), (options.device, gpu_stages)):
        print(f"  {name}: " + ", ".join(f"{key} {took:.3f}" for key, took in stages.items()))


PARTS = {
    "ceilings": measure_ceilings,
    "hessian": measure_hessian,
    "fits": measure_fits,
    "prediction": measure_prediction,
    "equality": check_equality,
    "products": measure_products,
    "cpu": compare_with_cpu,
}

if __name__ == "__main__":
    sys.exit(main())
