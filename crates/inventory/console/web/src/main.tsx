import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/grid.css";
import "./styles/pages.css";

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
