# Compares the types of the Python client with the client itself, name for name, and prints where
# they differ, as a list.
import ast, inspect, json
from pathlib import Path
import attestd
from attestd._routes import _snake

differ = []
tree = ast.parse(Path(attestd.__file__).with_suffix(".pyi").read_text())

def parameters(node):
    a = node.args
    return [x.arg for x in a.posonlyargs + a.args if x.arg != "cls"] + [x.arg for x in a.kwonlyargs] + ([a.vararg.arg] if a.vararg else []) + ([a.kwarg.arg] if a.kwarg else [])

wire = set() # methods that are stated a second time, under the names of the reference

def compare(place, node, found):
    if any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list):
        if place in wire:
            again = [name for name in parameters(node)]
            plain = lambda names: sorted(name.replace("_", "").lower() for name in names)
            if plain(again) != plain(inspect.signature(found).parameters):
                differ.append(f"{place} has {again} under the names of the reference")
            return
        wire.add(place)
    if found is None:
        differ.append(f"{place} is not there")
        return
    if isinstance(found, property):
        found = found.fget
    stated = parameters(node)
    real = list(inspect.signature(found).parameters)
    if sorted(stated) != sorted(real) and not node.name == "__exit__":
        differ.append(f"{place} has {stated}, and really {real}")

stated = {}
for node in tree.body:
    if isinstance(node, ast.FunctionDef):
        compare(node.name, node, getattr(attestd, node.name, None))
    elif isinstance(node, ast.ClassDef):
        real = getattr(attestd, node.name, None)
        stated[node.name] = {member.name for member in node.body if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                own = node.name == "AsyncClient" and not member.name.startswith("__")
                if node.name != "AsyncClient" or own:
                    compare(f"{node.name}.{member.name}", member, getattr(attestd.Client if own else real, member.name, None))
for name in attestd.__all__:
    if name not in stated and not any(isinstance(node, (ast.FunctionDef, ast.AnnAssign)) and name in (getattr(node, "name", ""), getattr(getattr(node, "target", None), "id", "")) for node in tree.body):
        differ.append(f"{name} has no type")
    real = getattr(attestd, name)
    if callable(real) and real.__module__ != "attestd": # in tracebacks and pickles
        differ.append(f"{name} is of the module {real.__module__}")
    for member in vars(real) if inspect.isclass(real) and name in stated else ():
        if not member.startswith("_") and callable(getattr(real, member)) and member not in stated[name]:
            differ.append(f"{name}.{member} has no type")
for name in attestd.OPERATIONS:
    for client in ("Client", "AsyncClient"):
        if _snake(name) not in stated[client]:
            differ.append(f"{client}.{_snake(name)} has no type")
print(json.dumps(differ))
