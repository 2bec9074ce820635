#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes JSON schemas for kubeconform, one file per kind, out of Kubernetes' OpenAPI document or custom resource definitions.

usage: kubernetes_schemas.py FOLDER DOCUMENT...

An object with known properties admits no other ones, as the API server's strict field validation does. The files are
named KIND-GROUP-VERSION.json, kubeconform's own pattern being '{{.ResourceKind}}{{.KindSuffix}}.json'.
"""
import json
import os
import re
import sys

DEFINITIONS = "_definitions.json"
# Written as objects in Go, as scalars in YAML.
SCALARS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
SKIPPED = ("description", "default", "format")
# OpenShift's document names a kind by its definition only.
OPENSHIFT = re.compile(r"com\.github\.openshift\.api\.(\w+)\.(v\w+)\.(\w+)")


def convert(node):
    if isinstance(node, list):
        return [convert(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "$ref":
            out[key] = DEFINITIONS + value
        elif key == "properties":
            out[key] = {name: convert(item) for name, item in value.items()}
        elif key not in SKIPPED and not key.startswith("x-kubernetes"):
            out[key] = convert(value)
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def file_name(gvk):
    group = [gvk["group"].split(".")[0]] if gvk["group"] else []
    return "-".join([gvk["kind"].lower(), *group, gvk["version"]]) + ".json"


def kind_schema(schema, gvk):
    """The definition of a kind, with the values that its two leading fields must have."""
    api = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
    properties = {**schema["properties"], "kind": {"const": gvk["kind"]}, "apiVersion": {"const": api}}
    required = sorted({*schema.get("required", []), "kind", "apiVersion"})
    return {**schema, "$schema": "http://json-schema.org/draft-07/schema#", "properties": properties,
            "required": required}


def write(path, content):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(content, f)


def kinds_of(name, node):
    gvks = node.get("x-kubernetes-group-version-kind", [])
    found = OPENSHIFT.fullmatch(name)
    return [dict(zip(("group", "version", "kind"), (f"{found[1]}.openshift.io", found[2], found[3])))] if found and not gvks else gvks


def from_kubernetes(definitions, folder):
    converted = {name: SCALARS.get(name) or convert(node) for name, node in definitions.items()}
    kinds = 0
    for name, node in definitions.items():
        gvks = kinds_of(name, node)
        if len(gvks) == 1 and "apiVersion" in node.get("properties", {}):
            write(os.path.join(folder, file_name(gvks[0])), kind_schema(converted[name], gvks[0]))
            kinds += 1
    write(os.path.join(folder, DEFINITIONS), {"definitions": converted})
    return kinds


def from_definition(crd, folder):
    """A CustomResourceDefinition: each of its versions; `metadata` is any object there."""
    for version in crd["spec"]["versions"]:
        gvk = {"group": crd["spec"]["group"], "version": version["name"], "kind": crd["spec"]["names"]["kind"]}
        write(os.path.join(folder, file_name(gvk)), kind_schema(convert(version["schema"]["openAPIV3Schema"]), gvk))
    return len(crd["spec"]["versions"])


def main():
    folder, *documents = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    kinds = 0
    for path in documents:
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        kinds += from_kubernetes(document["definitions"], folder) if "definitions" in document else from_definition(document, folder)
    print(f"{kinds} kinds in {folder}")


if __name__ == "__main__":
    main()
