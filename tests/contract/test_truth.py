"""Tutorial contract, rows where the sentence is wrong about the real models."""
import json
import shutil
import subprocess

from erne_server import BINARY, MINI


def test_row_16b_a_vision_checkpoint_is_refused_by_name(tmp_path):
    folder = tmp_path / "ERNIE-4.5-VL"
    folder.mkdir()
    config = json.loads((MINI / "config.json").read_text())
    config.update(model_type="ernie4_5_vl_moe", architectures=["Ernie4_5_VLMoeForConditionalGeneration"])
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copyfile(MINI / "tokenizer.model", folder / "tokenizer.model")
    done = subprocess.run([BINARY, "serve", folder, "--port", "0", "--ui-port", "0"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1
    assert "ernie4_5_vl_moe" in done.stderr and "vision" in done.stderr


def test_row_16b_an_image_in_a_request_is_a_400_that_says_so(mini):
    content = [{"type": "text", "text": "这是什么?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]
    answer = mini.chat([{"role": "user", "content": content}])
    assert answer.status == 400
    assert "image" in answer.json["error"]["message"] and answer.json["error"]["param"].startswith("messages")
