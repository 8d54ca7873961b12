// Streams answers of an OpenAI-compatible server with fetch alone: for pages and for Node 18 or newer.

// The payloads of server-sent events out of a stream of bytes, however these are cut.
async function* events(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of chunks(body)) {
    text += decoder.decode(bytes, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data:"));
      if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join("\n");
    }
  }
}

// Not every browser can iterate over a ReadableStream.
async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    await reader.cancel(); // whoever stops listening stops the answer
  }
}

// Yields the answer's text piece by piece. `fields` are those of POST /v1/chat/completions. Throws an Error with the
// server's message; an `AbortSignal` in `signal` ends it.
export async function* streamChat({ url, apiKey, signal, ...fields }) {
  const headers = { "Content-Type": "application/json" };
  if (apiKey) headers.Authorization = `Bearer ${apiKey}`;
  const body = JSON.stringify({ ...fields, stream: true });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, signal });
  if (!response.ok) {
    const { error } = await response.json();
    throw new Error(error.message);
  }
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    const text = chunk.choices[0]?.delta?.content;
    if (text) yield text;
  }
  throw new Error("the answer was cut off");
}
