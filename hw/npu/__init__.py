"""The core that runs integer and binary networks (NPU): its instructions, and its hardware."""
