# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the role training_job takes its image for one that no registry has, so that each node must have it already."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

NAME = "registry.example.org/ml/training:2026.11"
DIGEST = "registry.example.org/ml/training@sha256:" + "0" * 64

# What a site sets, and whether the nodes must have the image.
PRESENT: list[tuple[dict[str, t.Any], bool]] = [
    ({"training_image_name": NAME}, True),
    ({"training_image_name": NAME, "training_image_delivery": "archive"}, True),
    ({"training_image_name": NAME, "training_image_delivery": "registry"}, False),
    # Others have built it, and nodes pull it.
    ({"training_image_name": NAME, "training_image_build": "false"}, False),
    ({"training_job_image": DIGEST, "training_image_delivery": "archive"}, True),
    # It may be another image than the one that is delivered.
    ({"training_job_image": DIGEST, "training_image_name": NAME}, False),
    ({"training_job_image": DIGEST}, False),
]


@pytest.mark.parametrize(("site", "present"), PRESENT)
def test_an_image_of_an_archive_must_be_on_the_nodes(site: dict[str, t.Any], present: bool) -> None:
    assert values(COLLECTION / "roles/training_job").value("training_job_image_present", **site) is present


def test_an_image_is_delivered_in_an_archive_unless_the_site_says_otherwise() -> None:
    assert values(COLLECTION / "roles/training_image").value("training_image_delivery") == "archive"
