"""Damaged and forged model files: the same model or one clear error, and never much memory."""

import hashlib
import io
import json
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import lasn
from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, ModelFileError
from lasn.persist import describe, file_chunks, read_model
from lasn.safetensors import read_header, read_tensor, write_chunks

N_DAMAGED = 20_000
N_FORGED = 2_000


def to_bytes(model):
    return b"".join(file_chunks(model))


def from_bytes(data):
    return read_model(io.BytesIO(data), "model.lasn")


def small_model(sparse=False):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 3))
    X = sp.csr_matrix(np.where(X > 0.0, X, 0.0)) if sparse else X
    y = np.array(["a", "b", "c"])[rng.randint(3, size=40)]
    scaler = StandardScaler(with_mean=not sparse)
    model = LASNClassifier(4, landmarks="uniform", loss="log_loss", random_state=0)
    return make_pipeline(scaler, model).fit(X, y)


def mixed_model():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=30), rng.randint(3, size=30)])
    encoder = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer([("scaled", StandardScaler(), [0]), ("encoded", encoder, [1])])
    random_state = np.random.RandomState(1)
    return make_pipeline(columns, LASNRegressor(4, random_state=random_state)).fit(X, X)


def tuned_model():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 3))
    model = LASNClassifierCV([1.0, 2.0], [0.5], 4, cv=2, calibration="isotonic", random_state=0)
    return model.fit(X, X[:, 0] > 0.0)


def damaged(data, rng):
    """The file after one of the accidents that happen to files."""
    accident = rng.randint(7)
    at, other = np.sort(rng.randint(len(data) + 1, size=2))
    if accident <= 1:  # flip a bit, half of the time in the header
        at = rng.randint(len(data) // 2 if accident else len(data))
        return data[:at] + bytes([data[at] ^ (1 << rng.randint(8))]) + data[at + 1 :]
    if accident == 2:  # cut off
        return data[:at]
    if accident == 3:  # noise over a stretch
        end = min(other, at + 16)
        return data[:at] + rng.bytes(end - at) + data[end:]
    if accident == 4:  # a stretch of zeros
        return data[:at] + bytes(other - at) + data[other:]
    if accident == 5:  # a stretch lost
        return data[:at] + data[other:]
    return data[:at] + rng.bytes(rng.randint(1, 16)) + data[at:]


@pytest.mark.parametrize("kind", ["dense", "sparse", "tuned"])
def test_damaged_files_load_the_same_model_or_say_so(kind):
    data = to_bytes(tuned_model() if kind == "tuned" else small_model(kind == "sparse"))
    rng = np.random.RandomState(len(kind))
    survived = 0
    for _ in range(N_DAMAGED // 2):
        mutated = damaged(data, rng)
        try:
            loaded = from_bytes(mutated)
        except ModelFileError:
            damage_noticed = mutated != data
            assert damage_noticed
        else:
            survived += 1
            assert to_bytes(loaded) == data
    assert survived < N_DAMAGED // 20


def test_every_flipped_bit_of_the_arrays_is_noticed():
    data = to_bytes(small_model())
    start = read_header(io.BytesIO(data)).data_start
    for at in range(start, len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << (at % 8)
        with pytest.raises(ModelFileError, match=r"was changed|neither true nor false"):
            from_bytes(bytes(flipped))


def test_every_truncation_is_noticed():
    data = to_bytes(small_model())
    for length in range(len(data)):
        with pytest.raises(ModelFileError):
            from_bytes(data[:length])


class Forgery:
    """A model file taken apart, to be put together again with digests that are right."""

    def __init__(self, data):
        stream = io.BytesIO(data)
        header = read_header(stream)
        self.tensors = {name: read_tensor(stream, header, name) for name in header.entries}
        self.texts = header.metadata
        self.document = json.loads(self.texts["model"])

    def attributes(self):
        return self.document["estimator"]["parameters"]["steps"][-1]["tuple"][1]["attributes"]

    def parameters(self):
        return self.document["estimator"]["parameters"]["steps"][-1]["tuple"][1]["parameters"]

    def tensor(self, name):
        """The name in the file of an array of the last step."""
        return f"steps.1.1.{name}"

    def written(self):
        digests = {}
        for name, array in self.tensors.items():
            head = f"{array.dtype.name} {array.shape}\n".encode()
            digests[name] = hashlib.sha256(head + array.tobytes()).hexdigest()
        text = json.dumps({**self.document, "arrays": digests})
        digest = hashlib.sha256(text.encode()).hexdigest()
        return b"".join(write_chunks(self.tensors, {**self.texts, "model": text, "sha256": digest}))


def forge(change, sparse=False):
    forgery = Forgery(to_bytes(small_model(sparse)))
    change(forgery)
    return forgery.written()


def set_tensor(name, change):
    def apply(forgery):
        key = forgery.tensor(name)
        forgery.tensors[key] = change(forgery.tensors[key])

    return apply


def set_attribute(name, value):
    return lambda forgery: forgery.attributes().update({name: value})


def set_parameter(name, value):
    return lambda forgery: forgery.parameters().update({name: value})


def with_nan(array):
    array.flat[0] = np.nan
    return array


FORGERIES = {
    "NaN in mapping_": (set_tensor("mapping_", with_nan), "mapping_ of LASNClassifier"),
    "NaN in landmarks_": (set_tensor("landmarks_", with_nan), "landmarks_ of"),
    "NaN in dual_coef_": (set_tensor("dual_coef_", with_nan), "dual_coef_ of"),
    "whole numbers as coef_": (set_tensor("coef_", lambda a: a.astype(int)), "coef_ of"),
    "a landmark less": (set_tensor("landmarks_", lambda a: a[:-1]), "mapping_ of"),
    "a feature less": (set_tensor("landmarks_", lambda a: a[:, :-1]), "landmarks_ of"),
    "a class less": (set_tensor("intercept_", lambda a: a[:-1]), "intercept_ of"),
    "an array of no estimator": (
        lambda forgery: forgery.tensors.update(more=np.zeros(2)),
        "no estimator uses",
    ),
    "an array that is missing": (set_attribute("coef_", {"array": "x", "order": "C"}), "missing"),
    "an attribute too many": (set_attribute("predict", 1), "no attribute"),
    "a dunder attribute": (set_attribute("__class__", 1), "no attribute"),
    "no classes": (lambda forgery: forgery.attributes().pop("classes_"), "lacks classes_"),
    "one class": (
        set_attribute("classes_", {"text": ["a"], "shape": [1]}),
        "coef_ and classes_ disagree",
    ),
    "a class of the system's": (
        lambda forgery: forgery.document["estimator"].update({"class": "os.system"}),
        "holds a 'os.system'",
    ),
    "an unknown parameter": (set_parameter("shell", "ls"), "no parameter"),
    "a bad parameter": (set_parameter("C", -1.0), "C=-1.0 is not accepted"),
    "a bad parameter of a scaler": (
        lambda forgery: forgery.document["estimator"]["parameters"]["steps"][0]["tuple"][1][
            "parameters"
        ].update(with_mean="yes"),
        "with_mean",
    ),
    "an unknown mark": (set_parameter("C", {"eval": "1"}), "marked 'eval'"),
    "an infinite gamma": (set_attribute("gamma_", {"float": "inf"}), "gamma_ of"),
    "another kernel": (set_parameter("kernel", "linear"), "the kernel and landmarks_ disagree"),
    "an untrue count": (set_attribute("n_landmarks_", 3), "n_landmarks_ is wrong"),
    "a bool as count": (set_attribute("n_features_in_", True), "n_features_in_"),
    "a huge text array": (
        set_attribute("classes_", {"text": ["x" * 100_000] + [""] * 100_000, "shape": [100_001]}),
        "too long",
    ),
    "a shape of text that is not": (
        set_attribute("classes_", {"text": ["a", "b", "c"], "shape": [4]}),
        "impossible shape",
    ),
    "nothing": (lambda forgery: forgery.document.update(estimator=None), "no fitted estimator"),
    "a list": (lambda forgery: forgery.document.update(estimator=[]), "no fitted estimator"),
    "an estimator that is not fitted": (
        lambda forgery: forgery.attributes().clear(),
        "no fitted estimator",
    ),
    "a scaler that is not fitted": (
        lambda forgery: forgery.document["estimator"]["parameters"]["steps"][0]["tuple"][1][
            "attributes"
        ].clear(),
        "no fitted estimator|no estimator uses",
    ),
    "steps that are not": (
        lambda forgery: forgery.document["estimator"]["parameters"].update(steps=[1, 2]),
        "steps of a pipeline",
    ),
    "a field less": (lambda forgery: forgery.document.pop("versions"), "not complete"),
    "nesting without end": (
        lambda forgery: forgery.document.update(estimator=json.loads("[" * 900 + "]" * 900)),
        "model",
    ),
}


@pytest.mark.parametrize("case", FORGERIES)
def test_forged_files_are_refused_with_their_reason(case):
    change, reason = FORGERIES[case]
    with pytest.raises(ModelFileError, match=reason):
        from_bytes(forge(change))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", lambda a: a + 3),
        ("indices", lambda a: a - 3),
        ("indices", lambda a: a.astype(float)),
        ("indptr", lambda a: a[::-1].copy()),
        ("indptr", lambda a: a[:-1]),
        ("indptr", lambda a: a + 1),
        ("data", lambda a: a[:-1]),
        ("data", lambda a: a.reshape(1, -1)),
        ("data", with_nan),
    ],
)
def test_forged_sparse_landmarks_are_refused(part, change):
    with pytest.raises(ModelFileError, match=r"sparse matrix|landmarks_"):
        from_bytes(forge(set_tensor(f"landmarks_.{part}", change), sparse=True))


@pytest.mark.parametrize("state", [[625, 0, 0.0], [-1, 0, 0.0], [1, 2, 0.0], [1, 0], "x"])
def test_forged_random_states_are_refused(state):
    forgery = Forgery(to_bytes(mixed_model()))
    forgery.parameters()["random_state"]["random_state"] = state
    with pytest.raises(ModelFileError, match="random_state"):
        from_bytes(forgery.written())


ODD = [None, True, -1, 0, 3, 10**30, 1.5, "", "rbf", [], [1], {}, {"a": 1}, {"float": "nan"},
       {"tuple": [1, 2]}, {"dict": [[1, 2]]}, {"dict": [[[], 2]]}, {"slice": [1, 2, 3]},
       {"dtype": "float64"}, {"type": "float32"}, {"text": ["a"], "shape": [1]},
       {"objects": [None, 1], "shape": [2]}, {"array": "x", "order": "C"}]  # fmt: skip


def places(value, found):
    """Every (container, key) in nested JSON."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in pairs:
        found.append((value, key))
        if isinstance(part, (dict, list)):
            places(part, found)
    return found


@pytest.mark.parametrize("make", [small_model, mixed_model])
def test_forged_values_are_taken_or_refused_and_nothing_else(make):
    data = to_bytes(make())
    rng = np.random.RandomState(0)
    refused = 0
    for _ in range(N_FORGED // 2):
        forgery = Forgery(data)
        known = places(forgery.document["estimator"], [])
        container, key = known[rng.randint(len(known))]
        if rng.randint(4) == 0:
            del container[key]
        elif rng.randint(3) == 0:
            other, other_key = known[rng.randint(len(known))]
            container[key] = json.loads(json.dumps(other[other_key]))
        else:
            container[key] = ODD[rng.randint(len(ODD))]
        try:
            from_bytes(forgery.written())
        except ModelFileError:
            refused += 1
    assert refused > N_FORGED // 4


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.lasn"


def test_a_file_of_a_later_version_asks_for_an_upgrade(path):
    forgery = Forgery(to_bytes(small_model()))
    forgery.texts["version"] = "2"
    path.write_bytes(forgery.written())
    for read in (lasn.load, describe):
        with pytest.raises(ModelFileError, match=r"model\.lasn.*later LASN.*pip install --upgrade"):
            read(path)


@pytest.mark.parametrize("version", ["0", "", "x", "-1", "²", "9" * 5000])
def test_a_version_that_is_none_is_refused(version):
    forgery = Forgery(to_bytes(small_model()))
    forgery.texts["version"] = version
    with pytest.raises(ModelFileError, match="no version"):
        from_bytes(forgery.written())


def test_other_files_are_refused(path):
    path.write_bytes(b"".join(write_chunks({"weight": np.zeros(3)}, {"format": "pt"})))
    with pytest.raises(ModelFileError, match="without a LASN model"):
        lasn.load(path)
    path.write_text("0 1:2.5 3:1\n" * 20)
    with pytest.raises(ModelFileError, match="claims a header"):
        lasn.load(path)
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="0 bytes"):
        lasn.load(path)


def test_a_changed_header_is_noticed_by_describe(path):
    data = to_bytes(small_model())
    path.write_bytes(data.replace(b"squared", b"Squared").replace(b"log_loss", b"log_lose", 1))
    with pytest.raises(ModelFileError, match="header was changed"):
        describe(path)


def test_claims_take_no_memory():
    text = json.dumps(
        {"x": {"dtype": "F64", "shape": [1 << 36], "data_offsets": [0, 1 << 39]}}
    ).encode()
    huge_array = len(text).to_bytes(8, "little") + text
    huge_header = (90_000_000).to_bytes(8, "little") + b"{}"
    tracemalloc.start()
    try:
        for data in (huge_array, huge_header):
            with pytest.raises(ModelFileError):
                from_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
