"""Where the end-to-end tests find models, golden files and packages."""
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = os.environ.get("SLUICE_FIXTURES", os.path.join(TOP, "..", "shared", "fixtures"))
EXAMPLES = os.path.join(TOP, "examples", "models")
SKIP = 77  # ctest's SKIP_RETURN_CODE


def model_folder(name):
    """The folder of a model by its name; ends the test as skipped where the fixtures are absent."""
    folder = os.path.join(EXAMPLES, name)
    if os.path.isdir(folder):
        return folder
    folder = os.path.join(FIXTURES, name)
    if not os.path.isdir(folder):
        print(f"{folder} is not there: set SLUICE_FIXTURES")
        sys.exit(SKIP)
    return folder


def golden_file(name):
    own = os.path.join(model_folder(name), "golden.safetensors")
    return own if os.path.exists(own) else os.path.join(FIXTURES, "golden", name.split("-")[0] + ".safetensors")


def package(packages, name):
    return os.path.join(packages, name + ".sluice")
