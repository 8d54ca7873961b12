// Streams an answer with Node 18 or newer and no packages:
//
//   erne serve
//   node chat.mjs 写一首关于春天的七言绝句
import { streamChat } from "../vue/chat.js";

const url = process.env.ERNE_URL ?? "http://127.0.0.1:8000";
const content = process.argv.slice(2).join(" ") || "你好，你是谁？";
try {
  const answer = streamChat({
    url,
    apiKey: process.env.ERNE_API_KEY,
    model: process.env.ERNE_MODEL ?? "erne-mini",
    messages: [{ role: "user", content }],
    temperature: 0.3,
    seed: 1,
  });
  for await (const text of answer) process.stdout.write(text);
  process.stdout.write("\n");
} catch (error) {
  console.error(`请求失败：${error.message}`);
  process.exitCode = 1;
}
